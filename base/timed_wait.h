#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

// Waits that end in time, whatever becomes of the wall clock. Abseil's own waits with a timeout have the kernel wait
// for a time of the wall clock: set back by an hour, that comes an hour late. These wait for a time since boot, which
// nobody sets. Everything of ours that waits with a limit waits here (tests/style holds it to that).
namespace ampd {

// Waits until `condition` holds, or until `timeout` has passed; whether it holds. As absl::Mutex::AwaitWithTimeout: the
// mutex is free meanwhile. One thread of the process rings for all waits; it is started by the first that has to wait.
bool AwaitFor(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration timeout)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

// The same until `deadline`, a time since boot (Clock::SinceBoot of base/clock.h); absl::InfiniteDuration(): no limit.
bool AwaitUntil(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration deadline)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

}  // namespace ampd
