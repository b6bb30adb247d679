#include "worker/shim/lease_timer.h"

#include <algorithm>

namespace ampd::shim {

void LeaseTimer::Renew(absl::Duration deadline, absl::Duration suspend_limit) {
  deadline_ = std::max(deadline_, deadline);
  if (suspend_limit > absl::ZeroDuration()) {
    suspend_limit_ = suspend_limit;
  }
}

LeaseTimer::Verdict LeaseTimer::VerdictAt(absl::Duration now) const {
  if (deadline_ == absl::ZeroDuration()) {
    return now < agent_seen_at_ + unattended_limit_ ? Verdict::kRun : Verdict::kKill;
  }
  if (now < deadline_ - stop_ahead_) {
    return Verdict::kRun;
  }
  return now < deadline_ + suspend_limit_ ? Verdict::kSuspend : Verdict::kKill;
}

absl::Duration LeaseTimer::NextChange(absl::Duration now) const {
  switch (VerdictAt(now)) {
    case Verdict::kRun:
      return deadline_ == absl::ZeroDuration() ? agent_seen_at_ + unattended_limit_ : deadline_ - stop_ahead_;
    case Verdict::kSuspend:
      return deadline_ + suspend_limit_;
    case Verdict::kKill:
      break;
  }
  return absl::InfiniteDuration();
}

}  // namespace ampd::shim
