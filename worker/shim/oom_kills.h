#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/io/file.h"

namespace ampd::shim {

// Name of an empty file in the spawn folder. If it exists, `out_of_memory` in the exit status is a guess, because only
// the machine's count of OOM kills was available.
inline constexpr char kOomGuessFile[] = "oom-guess";

// Decides whether the kernel's out-of-memory (OOM) killer ended a process. The wait status shows only SIGKILL, which
// anybody may send. The kernel counts OOM kills for each control group with a memory controller, and for the whole
// machine. A group's count (`memory.events.local`; in version 1 `memory.oom_control`) includes only the group itself,
// so other jobs do not affect it. The machine's count includes all processes.
//
//   1. while the process lives, Sample is called regularly; it finds the process's group and reads the counts
//   2. the process exits; its group may be deleted too, but the open counter file can still be read
//   3. VerdictAt compares the counts and returns the verdict
//
// Single-threaded; owner: the shim's loop.
class OomKills {
 public:
  enum class Verdict {
    kNone,
    kOfTheGroup,    // the count of the process's control group rose before the process ended
    kOfTheMachine,  // the group has no count, and the count of the whole machine rose
  };

  // `proc` is the mount point of procfs.
  explicit OomKills(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Reads the OOM counts at `now`, for the control group that the process is in at that time. Cheap, so it may be
  // called often.
  void Sample(pid_t process, absl::Duration now);
  // Decides whether the OOM killer ended the process. Call it right after the process has been ended by SIGKILL.
  Verdict VerdictAt(absl::Duration now) const;

 private:
  // The numbers of OOM kills that the kernel had counted at `time` (since boot).
  struct Count {
    absl::Duration time;
    std::optional<int64_t> of_the_group;
    int64_t of_the_machine = 0;
  };

  void Open(const std::string& groups);
  Count Read(absl::Duration now) const;

  const std::string proc_;
  std::string groups_;  // the content of /proc/PID/cgroup at the last Sample
  UniqueFd counter_;    // the group's counter file; not open if the group has no count
  std::deque<Count> counts_;
  absl::Duration sampled_at_ = -absl::InfiniteDuration();
};

}  // namespace ampd::shim
