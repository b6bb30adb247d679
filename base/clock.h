#pragma once

#include "absl/time/time.h"

namespace ampd {

// A source of time. Durations and leases use SinceBoot, which never jumps and counts suspended time. Now is for display
// and for records. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  // CLOCK_BOOTTIME, the same for every process of the host.
  virtual absl::Duration SinceBoot() const = 0;
};

// The machine's clock. Never destroyed.
const Clock& SystemClock();

}  // namespace ampd
