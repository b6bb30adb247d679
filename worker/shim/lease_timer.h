#pragma once

#include "absl/time/time.h"

namespace ampd::shim {

// Decides from the lease whether the trainer may run, must be suspended or must be killed. Times are since boot.
// Single-threaded; owner: the shim's loop.
//
//   no lease --Renew--> running --stop_ahead before the deadline--> suspended --Renew--> running
//      '--unattended_limit--> kill                                     '--suspend_limit--> kill
class LeaseTimer {
 public:
  enum class Verdict { kRun, kSuspend, kKill };

  // The trainer is suspended `stop_ahead` before the lease's deadline, because waking the shim and delivering the
  // signal take time. A trainer without a lease only waits for work. It is killed if no agent was connected for
  // `unattended_limit`.
  explicit LeaseTimer(absl::Duration stop_ahead = absl::ZeroDuration(),
                      absl::Duration unattended_limit = absl::InfiniteDuration())
      : stop_ahead_(stop_ahead), unattended_limit_(unattended_limit) {}

  // Records that an agent is connected at `now`.
  void RecordAgent(absl::Duration now) { agent_seen_at_ = now; }

  // Extends the lease. A deadline that is not later than the current one changes nothing. A `suspend_limit` of zero
  // keeps the current limit.
  void Renew(absl::Duration deadline, absl::Duration suspend_limit);

  Verdict VerdictAt(absl::Duration now) const;

  // Returns the time at which the verdict will change if the lease is not renewed. Returns InfiniteDuration if the
  // verdict will never change.
  absl::Duration NextChange(absl::Duration now) const;

  absl::Duration deadline() const { return deadline_; }

 private:
  const absl::Duration stop_ahead_;
  const absl::Duration unattended_limit_;
  absl::Duration agent_seen_at_;
  absl::Duration deadline_;  // zero: no lease
  absl::Duration suspend_limit_ = absl::InfiniteDuration();
};

}  // namespace ampd::shim
