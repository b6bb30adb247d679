#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/io/file.h"

namespace ampd::shim {

// In the spawn folder, empty, when `out_of_memory` of the exit status rests on what was counted for the machine.
inline constexpr char kOomGuessFile[] = "oom-guess";

// Tells whether the kernel ended a process for want of memory, which its wait status does not say: that is SIGKILL,
// which anybody may send. The kernel counts such ends by control group, where it has a memory controller, and for the
// machine. A group counts those in itself (`memory.events.local`; of version 1 `memory.oom_control`), not those in the
// groups below and beside it, so that other jobs' ends do not tell here; of the machine's count all that ran on it do.
//
//   1. Look  while the process lives, now and then: which group is it in, and what has been counted there
//   2. the process ends; the group may be gone with it, and the opened file knows that
//   3. Verdict
//
// Single-threaded: owner the shim's loop.
class OomKills {
 public:
  enum class Verdict {
    kNone,
    kOfTheGroup,    // counted in its own group at about the time of its end
    kOfTheMachine,  // its group counts nothing; somewhere on the machine there was one at about that time
  };

  // `proc` is where procfs is.
  explicit OomKills(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Cheap when called often. A group may be changed; the process is looked for where it is now.
  void Look(pid_t process, absl::Duration now);
  // Of a process that has just ended by SIGKILL.
  Verdict At(absl::Duration now) const;

 private:
  // What was counted at `time`, since boot.
  struct Count {
    absl::Duration time;
    std::optional<int64_t> of_the_group;
    int64_t of_the_machine = 0;
  };

  void Open(const std::string& groups);
  Count Read(absl::Duration now) const;

  const std::string proc_;
  std::string groups_;  // as /proc/PID/cgroup told last
  UniqueFd counter_;    // of the group; none where nothing is counted
  std::deque<Count> counts_;
  absl::Duration looked_at_ = -absl::InfiniteDuration();
};

}  // namespace ampd::shim
