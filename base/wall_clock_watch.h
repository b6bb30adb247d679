#pragma once

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace ampd {

// Decides whether the wall clock is reliable enough to delete data by its age. It compares the wall clock with the boot
// clock, which never jumps, and at the start with the newest time that an earlier process recorded.
//
//   1. the wall clock advances with the boot clock                        -> IsSteady() is true
//   2. it jumps by more than kTolerance, forwards or backwards            -> IsSteady() is false
//   3. after that it advances with the boot clock for the whole of kQuiet -> IsSteady() is true again
//
// Thread-safe.
class WallClockWatch {
 public:
  static constexpr absl::Duration kTolerance = absl::Minutes(5);
  static constexpr absl::Duration kQuiet = absl::Hours(1);

  explicit WallClockWatch(const Clock* clock);

  // Compares the wall clock with the newest time that an earlier process recorded (absl::InfinitePast() if there is
  // none). If the wall clock is behind that time by more than kTolerance, or ahead of it by more than kQuiet, one of
  // the two may be wrong. IsSteady() is then false for kQuiet, and the distance between the two times is returned.
  // Otherwise returns nullopt.
  std::optional<absl::Duration> CompareWith(absl::Time newest_recorded);

  // Compares the wall clock with the boot clock. Returns by how much the wall clock has jumped since the last call, or
  // nullopt if that is at most kTolerance. Call this function several times in every interval of kTolerance.
  std::optional<absl::Duration> Look();

  // Returns true if the wall clock gave no reason for doubt during the last kQuiet or, if the watch is younger than
  // that, since its start. Reasons for doubt are a jump, and a suspicious distance in CompareWith.
  bool IsSteady() const;

 private:
  absl::Duration Offset() const;
  void Distrust() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  absl::Duration offset_ ABSL_GUARDED_BY(mutex_);  // The wall clock minus the boot clock.
  // IsSteady() is false until this time since boot. Minus infinity if the wall clock has given no reason for doubt so
  // far.
  absl::Duration steady_from_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

}  // namespace ampd
