#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/io/file.h"

namespace ampd::shim {

// Name of an empty file in the spawn folder. It exists if `out_of_memory` in the exit status is a guess, because only
// the machine-wide count of OOM kills was available.
inline constexpr char kOomGuessFile[] = "oom-guess";

// Decides whether the kernel's out-of-memory killer ended a process. The wait status does not say it: it shows SIGKILL,
// which anybody may send. The kernel counts OOM kills for each control group with a memory controller, and for the
// whole machine. A group's count (`memory.events.local`; in version 1 `memory.oom_control`) excludes groups below and
// beside it, so other jobs do not affect it. The machine's count includes every process on it.
//
//   1. while the process lives, Sample is called now and then; it finds the process's group and reads the counts
//   2. the process ends; its group may be deleted with it, but the opened counter file can still be read
//   3. VerdictAt gives the verdict
//
// Single-threaded: owner the shim's loop.
class OomKills {
 public:
  enum class Verdict {
    kNone,
    kOfTheGroup,    // the process's group counted an OOM kill at about the time of the process's end
    kOfTheMachine,  // the process's group has no count; the machine counted an OOM kill at about that time
  };

  // `proc` is the mount point of procfs.
  explicit OomKills(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Reads the counts of the process's current group, because the process may have moved to another one. Cheap when
  // called often.
  void Sample(pid_t process, absl::Duration now);
  // The verdict on a process that has just ended by SIGKILL.
  Verdict VerdictAt(absl::Duration now) const;

 private:
  // The numbers of OOM kills that the kernel had counted at `time`, since boot.
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
