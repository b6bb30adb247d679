#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

// Waits with a timeout that does not depend on the wall clock. Abseil's own timed waits end at a time of the wall
// clock: if that clock is set back by an hour, they end an hour late. The functions here wait for a time since boot,
// which nobody can set. All timed waits in this project use them (tests/style checks that).
namespace ampd {

// Waits until `condition` holds or `timeout` has passed, and returns whether `condition` holds. Releases the mutex
// while it waits, like absl::Mutex::AwaitWithTimeout. One thread of the process serves all timeouts; the first call
// that has to wait starts this thread.
bool AwaitFor(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration timeout)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

// Waits until `condition` holds or `deadline` has passed, and returns whether `condition` holds. `deadline` is a time
// since boot (Clock::SinceBoot of base/clock.h); absl::InfiniteDuration() means no deadline. Apart from that, does the
// same as AwaitFor.
bool AwaitUntil(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration deadline)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

}  // namespace ampd
