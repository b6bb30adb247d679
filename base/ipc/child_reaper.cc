#include "base/ipc/child_reaper.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/ipc/process.h"

namespace ampd {

void ChildReaper::Add(pid_t pid) { children_[pid] = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

void ChildReaper::Reap() {
  std::erase_if(children_, [](const auto& child) {
    const pid_t reaped = waitpid(child.first, nullptr, WNOHANG);
    // ECHILD means that the kernel has reaped the child. It does so if SIGCHLD is ignored, a setting that processes
    // inherit.
    return reaped == child.first || (reaped < 0 && errno == ECHILD);
  });
}

std::vector<int> ChildReaper::Descriptors() const {
  std::vector<int> descriptors;
  for (const auto& [pid, pidfd] : children_) {
    if (pidfd.ok()) {
      descriptors.push_back(pidfd.get());
    }
  }
  return descriptors;
}

void ReapAdopted(const std::function<bool(pid_t)>& is_own) {
  for (siginfo_t ended = {}; waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0;
       ended = {}) {
    if (!is_own(ended.si_pid)) {
      waitpid(ended.si_pid, nullptr, WNOHANG);
      continue;
    }
    // The child that waitid returned has another owner, which will reap it. Until then waitid returns only this child,
    // so find the other ended children in the process table.
    for (const ProcessEntry& entry : ListProcesses()) {
      if (entry.parent == getpid() && entry.state == 'Z' && !is_own(entry.pid)) {
        waitpid(entry.pid, nullptr, WNOHANG);
      }
    }
    return;
  }
}

}  // namespace ampd
