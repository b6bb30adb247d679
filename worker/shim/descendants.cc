#include "worker/shim/descendants.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/ipc/process.h"

namespace ampd::shim {
namespace {

// Maximum number of passes over the process table in one call. If new processes still appear after the last pass, the
// next call handles them.
constexpr int kMaxPasses = 50;

void SignalOne(const ProcessEntry& entry, const std::string& boot_id, int signal) {
  if (absl::StatusOr<ProcessHandle> process = ProcessHandle::Open({boot_id, entry.pid, entry.start_ticks});
      process.ok()) {
    process->Signal(signal).IgnoreError();  // an error means that the process has already ended
  }
}

}  // namespace

int SignalDescendants(int signal) {
  const absl::StatusOr<std::string> boot_id = BootId();
  const std::vector<ProcessEntry> all = DescendantsOf(getpid(), ListProcesses());
  for (const ProcessEntry& entry : all) {
    SignalOne(entry, boot_id.value_or(""), signal);
  }
  return static_cast<int>(all.size());
}

void StopDescendants() {
  const std::string boot_id = BootId().value_or("");
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    bool any = false;
    for (const ProcessEntry& entry : DescendantsOf(getpid(), ListProcesses())) {
      if (entry.state != 'T' && entry.state != 't') {
        any = true;
        SignalOne(entry, boot_id, SIGSTOP);
      }
    }
    if (!any) {
      return;
    }
  }
}

bool KillDescendants() {
  StopDescendants();
  return SignalDescendants(SIGKILL) == 0;
}

}  // namespace ampd::shim
