#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::client {

// A program that `ampctl dev` runs. The program has its own process group, so that the terminal's Ctrl-C reaches only
// ampctl. The program gets SIGTERM when ampctl dies. Thread-compatible.
class Child {
 public:
  // Starts the program `command[0]` with the other words as arguments. Appends its output to `log_path`. REQUIRES:
  // called on the main thread, because the kernel ends the child when the thread that started it ends.
  static absl::StatusOr<Child> Start(const std::vector<std::string>& command, const std::string& log_path);

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Returns how the program ended, in words ("exit status 3", "signal 9"); empty while the program runs.
  const std::optional<std::string>& PollExit();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<std::string> exit_;
};

}  // namespace ampd::client
