#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ampd::e2e {

// A program under test. The constructor starts the program. The destructor kills it and waits for its end.
// Thread-compatible.
class ChildProcess {
 public:
  // Starts the program `arguments[0]` with the other arguments. Appends its output to `log_path`.
  ChildProcess(std::vector<std::string> arguments, const std::string& log_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  // Returns whether the program still runs. If it has ended, collects its wait status.
  bool Running();
  void Signal(int signal);
  // Waits until the program ends and returns its wait status, or -1 if it does not end within `timeout`.
  int Wait(absl::Duration timeout);
  void KillAndWait();

 private:
  int pid_ = -1;
  int wait_status_ = -1;
};

// Waits until the file exists and ends with a newline, and returns its content. Fails the test after `timeout`. Does
// not poll: the file system notifies this process of changes.
std::string AwaitFile(const std::string& path, absl::Duration timeout);

// Creates an empty folder in the test's temporary folder and returns its path.
std::string MakeFolder(const std::string& prefix);

}  // namespace ampd::e2e
