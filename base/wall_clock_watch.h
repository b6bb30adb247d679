#pragma once

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace ampd {

// Tells whether the wall clock may be believed where something is to be deleted by its age. It compares the wall clock
// with the boot clock, which never leaps, and at the start with the newest time that was recorded before.
//
//   1. the wall clock goes as the boot clock does                       -> IsSteady() is true
//   2. it leaps by more than kTolerance, forwards or backwards          -> IsSteady() is false
//   3. it goes as the boot clock does for the whole of kQuiet after that -> IsSteady() is true again
//
// Thread-safe.
class WallClockWatch {
 public:
  static constexpr absl::Duration kTolerance = absl::Minutes(5);
  static constexpr absl::Duration kQuiet = absl::Hours(1);

  explicit WallClockWatch(const Clock* clock);

  // Takes the newest time that an earlier process recorded. If the wall clock is behind it by more than kTolerance, or
  // beyond it by more than kQuiet, one of the two may be wrong: returns the distance, and the clock is not steady for
  // kQuiet. absl::InfinitePast(): nothing is recorded.
  std::optional<absl::Duration> CompareWith(absl::Time newest_recorded);

  // Looks at both clocks. Returns by how much the wall clock has leapt since the last look, if it has. To be called
  // several times within kTolerance.
  std::optional<absl::Duration> Look();

  // Whether the wall clock has gone without a leap for kQuiet, or since the start.
  bool IsSteady() const;

 private:
  absl::Duration Offset() const;
  void Distrust() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  mutable absl::Mutex mutex_;
  absl::Duration offset_ ABSL_GUARDED_BY(mutex_);  // of the wall clock against the boot clock
  // By the boot clock. absl::InfiniteDuration() negated: from the start.
  absl::Duration steady_from_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

}  // namespace ampd
