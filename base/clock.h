#pragma once

#include "absl/time/time.h"

namespace ampd {

// Where time comes from. Durations and leases use SinceBoot, which never jumps and counts suspended time; Now is for
// showing to people and for records. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  // CLOCK_BOOTTIME: the same for every process of the host.
  virtual absl::Duration SinceBoot() const = 0;
};

// The machine's clock. Lives for ever.
const Clock& SystemClock();

}  // namespace ampd
