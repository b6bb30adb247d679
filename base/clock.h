#pragma once

#include "absl/time/time.h"

namespace ampd {

// A source of time. Code that measures durations or leases uses SinceBoot, which never jumps and includes the time that
// the machine was suspended. Now is the wall clock, for times that are displayed or recorded. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  // The time since the host booted (CLOCK_BOOTTIME). All processes of the host read the same clock.
  virtual absl::Duration SinceBoot() const = 0;
};

// The machine's clock. Never destroyed.
const Clock& SystemClock();

}  // namespace ampd
