#pragma once

#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace ampd {

// A clock for tests, whose time changes only when the test calls Advance or SetNow. Thread-safe.
class SimulatedClock final : public Clock {
 public:
  SimulatedClock() = default;

  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  absl::Duration SinceBoot() const override {
    absl::MutexLock lock(&mutex_);
    return since_boot_;
  }

  // Moves both readings forward. REQUIRES: step >= 0.
  void Advance(absl::Duration step) {
    absl::MutexLock lock(&mutex_);
    now_ += step;
    since_boot_ += step;
  }
  // Sets the wall clock (Now) but not SinceBoot, as an operator or NTP does. The wall clock may go backwards.
  void SetNow(absl::Time now) {
    absl::MutexLock lock(&mutex_);
    now_ = now;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'700'000'000);
  absl::Duration since_boot_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1000);
};

}  // namespace ampd
