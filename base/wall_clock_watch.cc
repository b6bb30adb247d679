#include "base/wall_clock_watch.h"

namespace ampd {

WallClockWatch::WallClockWatch(const Clock* clock) : clock_(clock) {
  absl::MutexLock lock(&mutex_);
  offset_ = Offset();
}

absl::Duration WallClockWatch::Offset() const { return clock_->Now() - absl::UnixEpoch() - clock_->SinceBoot(); }

void WallClockWatch::Distrust() { steady_from_ = clock_->SinceBoot() + kQuiet; }

std::optional<absl::Duration> WallClockWatch::CompareWith(absl::Time newest_recorded) {
  const absl::Duration distance = clock_->Now() - newest_recorded;
  if (newest_recorded == absl::InfinitePast() || (distance >= -kTolerance && distance <= kQuiet)) {
    return std::nullopt;
  }
  absl::MutexLock lock(&mutex_);
  Distrust();
  return distance;
}

std::optional<absl::Duration> WallClockWatch::Look() {
  absl::MutexLock lock(&mutex_);
  const absl::Duration leap = Offset() - offset_;
  if (absl::AbsDuration(leap) <= kTolerance) {
    return std::nullopt;
  }
  offset_ += leap;
  Distrust();
  return leap;
}

bool WallClockWatch::IsSteady() const {
  absl::MutexLock lock(&mutex_);
  const bool has_leapt = absl::AbsDuration(Offset() - offset_) > kTolerance;  // Compared with the last Look.
  return !has_leapt && clock_->SinceBoot() >= steady_from_;
}

}  // namespace ampd
