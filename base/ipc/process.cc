#include "base/ipc/process.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd {
namespace {

constexpr int64_t kMaxProcFileBytes = 4 << 20;
// Positions of fields in /proc/PID/stat, counted from 0 after the closing parenthesis of the command.
constexpr size_t kStateField = 0;
constexpr size_t kParentField = 1;
constexpr size_t kStartField = 19;

absl::Status Gone(pid_t pid) {
  return Error(absl::StatusCode::kNotFound, "PROCESS_GONE", absl::StrCat("process ", pid, " has ended"));
}

std::string ProcFile(pid_t pid, const char* name) { return absl::StrCat("/proc/", pid, "/", name); }

}  // namespace

absl::StatusOr<std::string> BootId() {
  AMPD_ASSIGN_OR_RETURN(std::string id, ReadFile("/proc/sys/kernel/random/boot_id", 100));
  return std::string(absl::StripSuffix(id, "\n"));
}

absl::StatusOr<ProcessEntry> ReadProcess(pid_t pid) {
  absl::StatusOr<std::string> text = ReadFile(ProcFile(pid, "stat"), kMaxProcFileBytes);
  if (!text.ok()) {
    return Gone(pid);
  }
  // The command may contain spaces and parentheses; the last closing parenthesis ends it.
  const size_t end = text->rfind(") ");
  const std::vector<std::string> fields = end == std::string::npos
                                              ? std::vector<std::string>{}
                                              : std::vector<std::string>(absl::StrSplit(text->substr(end + 2), ' '));
  ProcessEntry entry;
  entry.pid = pid;
  if (fields.size() <= kStartField || fields[kStateField].size() != 1 ||
      !absl::SimpleAtoi(fields[kParentField], &entry.parent) ||
      !absl::SimpleAtoi(fields[kStartField], &entry.start_ticks)) {
    return Gone(pid);
  }
  entry.state = fields[kStateField][0];
  return entry;
}

absl::StatusOr<ProcessIdentity> IdentityOf(pid_t pid) {
  AMPD_ASSIGN_OR_RETURN(ProcessEntry entry, ReadProcess(pid));
  AMPD_ASSIGN_OR_RETURN(std::string boot_id, BootId());
  return ProcessIdentity{std::move(boot_id), pid, entry.start_ticks};
}

absl::StatusOr<ProcessHandle> ProcessHandle::Open(const ProcessIdentity& identity) {
  AMPD_ASSIGN_OR_RETURN(const std::string boot_id, BootId());
  if (identity.pid <= 0 || boot_id != identity.boot_id) {
    return Gone(identity.pid);
  }
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, identity.pid, 0)));
  if (!pidfd.ok()) {
    return errno == ESRCH ? Gone(identity.pid) : ErrnoError(errno, "open a process");
  }
  // Read the process table only after the pidfd is open. If the entry then has the expected start time, the process has
  // kept its pid all the time, so the pidfd refers to it.
  AMPD_ASSIGN_OR_RETURN(const ProcessEntry entry, ReadProcess(identity.pid));
  if (entry.start_ticks != identity.start_ticks || entry.state == 'Z') {
    return Gone(identity.pid);
  }
  return ProcessHandle(identity, std::move(pidfd));
}

absl::Status ProcessHandle::Signal(int signal) const {
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) != 0) {
    return errno == ESRCH ? Gone(identity_.pid) : ErrnoError(errno, "signal a process");
  }
  return absl::OkStatus();
}

bool ProcessHandle::alive() const {
  pollfd poll_fd{pidfd_.get(), POLLIN, 0};
  return poll(&poll_fd, 1, 0) == 0;
}

std::vector<ProcessEntry> ListProcesses() {
  std::vector<ProcessEntry> table;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) {
    return table;
  }
  while (const dirent* entry = readdir(folder)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) {
      continue;
    }
    if (absl::StatusOr<ProcessEntry> process = ReadProcess(pid); process.ok()) {
      table.push_back(*process);
    }
  }
  closedir(folder);
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return table;
}

std::vector<ProcessEntry> DescendantsOf(pid_t ancestor, const std::vector<ProcessEntry>& table) {
  std::set<pid_t> family = {ancestor};
  for (bool grown = true; grown;) {
    grown = false;
    for (const ProcessEntry& entry : table) {
      grown |= family.count(entry.parent) > 0 && family.insert(entry.pid).second;
    }
  }
  std::vector<ProcessEntry> descendants;
  for (const ProcessEntry& entry : table) {
    if (entry.pid != ancestor && entry.state != 'Z' && entry.state != 'X' && family.count(entry.pid) > 0) {
      descendants.push_back(entry);
    }
  }
  return descendants;
}

bool StartedWith(pid_t pid, const std::string& name, const std::string& value) {
  const absl::StatusOr<std::string> environment = ReadFile(ProcFile(pid, "environ"), kMaxProcFileBytes);
  if (!environment.ok()) {
    return false;
  }
  const std::vector<std::string> entries = absl::StrSplit(*environment, '\0');
  return std::find(entries.begin(), entries.end(), absl::StrCat(name, "=", value)) != entries.end();
}

std::vector<ProcessIdentity> ProcessesStartedWith(const std::string& name, const std::string& value) {
  std::vector<ProcessIdentity> found;
  const absl::StatusOr<std::string> boot_id = BootId();
  for (const ProcessEntry& entry : ListProcesses()) {
    if (boot_id.ok() && entry.state != 'Z' && StartedWith(entry.pid, name, value)) {
      found.push_back({*boot_id, entry.pid, entry.start_ticks});
    }
  }
  return found;
}

}  // namespace ampd
