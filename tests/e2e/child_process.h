#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::e2e {

// A program under test, which is started here and ended by its id. The destructor kills it and waits.
// Thread-compatible.
class ChildProcess {
 public:
  // Starts `arguments`, of which the first is the program's path. Appends the program's output to `log_path`.
  ChildProcess(std::vector<std::string> arguments, const std::string& log_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  // Returns whether the program still runs. Reaps it if it has ended.
  bool Running();
  void Signal(int signal);
  // Waits for the end and returns the wait status, or -1 if the program did not end within `timeout`.
  int Wait(absl::Duration timeout);
  void KillAndWait();

 private:
  int pid_ = -1;
  int wait_status_ = -1;
};

// Returns the file's content once the file exists and ends with a newline. Fails the test after `timeout`. Used for
// port files, which appear atomically. Waits on the file system's notifications.
std::string AwaitFile(const std::string& path, absl::Duration timeout);

// Makes an empty folder below the test's temporary folder and returns its path.
std::string MakeFolder(const std::string& prefix);

}  // namespace ampd::e2e
