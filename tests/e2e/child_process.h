#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::e2e {

// A program under test, started and ended by its id. The destructor kills it and waits. Thread-compatible.
class ChildProcess {
 public:
  // Starts `arguments`, the first of which is the program's path, with its output appended to `log_path`.
  ChildProcess(std::vector<std::string> arguments, const std::string& log_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  // Whether it is still there. Reaps it when it is not.
  bool Running();
  void Signal(int signal);
  // The wait status, or -1 when it did not end in time.
  int Wait(absl::Duration timeout);
  void KillAndWait();

 private:
  int pid_ = -1;
  int wait_status_ = -1;
};

// The file's content once it is there and ends with a newline; fails the test after `timeout`. Used for port files,
// which appear atomically: the wait is on the file system's own notification.
std::string AwaitFile(const std::string& path, absl::Duration timeout);

// A fresh folder below the test's temporary folder.
std::string MakeFolder(const std::string& prefix);

}  // namespace ampd::e2e
