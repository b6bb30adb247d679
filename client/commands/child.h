#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::client {

// A program that `ampctl dev` runs, in a process group of its own so that the terminal's Ctrl-C reaches only ampctl; it
// gets SIGTERM when ampctl dies. Thread-compatible.
class Child {
 public:
  // Its output goes to the end of `log_path`. REQUIRES: called on the main thread, which the child's life hangs on.
  static absl::StatusOr<Child> Start(const std::vector<std::string>& command, const std::string& log_path);

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // The exit in words ("exit status 3", "signal 9"), or nothing while it runs.
  const std::optional<std::string>& PollExit();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<std::string> exit_;
};

}  // namespace ampd::client
