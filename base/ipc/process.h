#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/file.h"

// Identifies a process. The kernel reuses pids; boot id, pid and start time together are unique.
namespace ampd {

struct ProcessIdentity {
  std::string boot_id;
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // When the process started, in clock ticks after boot.
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// One line of the process table.
struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  // One of R S D T Z ..., as in ps.
  uint64_t start_ticks = 0;
};

// Refers to one process, also after it has ended. Signals go through the process's pidfd, so they never reach another
// process that has reused the pid. Thread-compatible.
class ProcessHandle {
 public:
  // Opens a running process. NOT_FOUND if the process has ended, even if another process has its pid now.
  static absl::StatusOr<ProcessHandle> Open(const ProcessIdentity& identity);

  // Sends the signal. NOT_FOUND if the process has ended.
  absl::Status Signal(int signal) const;
  bool alive() const;
  int pidfd() const { return pidfd_.get(); }  // Readable once the process has ended.
  const ProcessIdentity& identity() const { return identity_; }

 private:
  ProcessHandle(ProcessIdentity identity, UniqueFd pidfd) : identity_(std::move(identity)), pidfd_(std::move(pidfd)) {}

  ProcessIdentity identity_;
  UniqueFd pidfd_;
};

// The id of the machine's current boot.
absl::StatusOr<std::string> BootId();

// Reads a process's line of the process table. NOT_FOUND if there is no process with this pid.
absl::StatusOr<ProcessEntry> ReadProcess(pid_t pid);
absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid);

// All visible processes, ordered by pid. A process that ends during the call may be missing.
std::vector<ProcessEntry> ListProcesses();

// The processes of `table` that descend from `ancestor`, without zombies.
std::vector<ProcessEntry> DescendantsOf(pid_t ancestor, const std::vector<ProcessEntry>& table);

// Whether the process was started with NAME=value in its environment. Returns false if the environment cannot be read.
bool StartedWith(pid_t pid, const std::string& name, const std::string& value);

// Living processes that were started with NAME=value in their environment.
std::vector<ProcessIdentity> ProcessesStartedWith(const std::string& name, const std::string& value);

}  // namespace ampd
