#pragma once

#include "absl/time/time.h"

namespace ampd::shim {

// When the trainer may compute. Times are since boot. Single-threaded: owner the shim's loop.
//
//   no lease --Renew--> running --stop_ahead before the deadline--> suspended --Renew--> running
//      '--unattended limit--> to be killed                             '--suspend limit--> to be killed
class LeaseTimer {
 public:
  enum class Verdict { kRun, kSuspend, kKill };

  // Stopping takes time: the scheduler must run the shim, and the signal must arrive. `stop_ahead` is kept for that, so
  // that the trainer stands when the deadline comes.
  // Without a lease a trainer only waits for work: for `unattended_limit` after an agent was last there.
  explicit LeaseTimer(absl::Duration stop_ahead = absl::ZeroDuration(),
                      absl::Duration unattended_limit = absl::InfiniteDuration())
      : stop_ahead_(stop_ahead), unattended_limit_(unattended_limit) {}

  // An agent is there.
  void Attend(absl::Duration now) { attended_ = now; }

  // A lease given once only grows: an earlier deadline, or none, changes nothing. A limit of zero keeps the one before.
  void Renew(absl::Duration deadline, absl::Duration suspend_limit);

  Verdict At(absl::Duration now) const;

  // When At changes next by itself; InfiniteDuration if never.
  absl::Duration NextChange(absl::Duration now) const;

  absl::Duration deadline() const { return deadline_; }

 private:
  const absl::Duration stop_ahead_;
  const absl::Duration unattended_limit_;
  absl::Duration attended_;
  absl::Duration deadline_;  // zero: no lease
  absl::Duration suspend_limit_ = absl::InfiniteDuration();
};

}  // namespace ampd::shim
