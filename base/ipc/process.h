#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

// Which process is which. A pid alone is reused by the kernel; boot id, pid and start time together are not.
namespace ampd {

struct ProcessIdentity {
  std::string boot_id;
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // after boot, as /proc/PID/stat has it
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// One line of the process table.
struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  // R S D T Z ..., as ps shows it
  uint64_t start_ticks = 0;
};

// A living process, or one that has ended and whose number cannot be taken by another through this handle: signals go
// through its pidfd. Thread-compatible.
class ProcessHandle {
 public:
  // NOT_FOUND when it has ended, also when its pid belongs to another process by now.
  static absl::StatusOr<ProcessHandle> Open(const ProcessIdentity& identity);

  // NOT_FOUND when it has ended.
  absl::Status Signal(int signal) const;
  bool alive() const;
  int pidfd() const { return pidfd_.get(); }  // readable once the process has ended
  const ProcessIdentity& identity() const { return identity_; }

 private:
  ProcessHandle(ProcessIdentity identity, UniqueFd pidfd) : identity_(std::move(identity)), pidfd_(std::move(pidfd)) {}

  ProcessIdentity identity_;
  UniqueFd pidfd_;
};

// This boot of the machine.
absl::StatusOr<std::string> BootId();

// NOT_FOUND when there is no such process.
absl::StatusOr<ProcessEntry> ReadProcess(pid_t pid);
absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid);

// All processes that can be seen, by pid. One that ends meanwhile may be missing.
std::vector<ProcessEntry> ListProcesses();

// Those of `table` below `ancestor`, zombies left out.
std::vector<ProcessEntry> DescendantsOf(pid_t ancestor, const std::vector<ProcessEntry>& table);

// Whether the process was started with NAME=value in its environment. False when that cannot be read.
bool StartedWith(pid_t pid, const std::string& name, const std::string& value);

// Living processes that were started with NAME=value in their environment.
std::vector<ProcessIdentity> ProcessesStartedWith(const std::string& name, const std::string& value);

}  // namespace ampd
