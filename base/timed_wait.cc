#include "base/timed_wait.h"

#include <pthread.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace ampd {
namespace {

// One wait of a thread, either on a condition or on a condition variable. The Ringer sets `has_rung` when the time is
// over. The waiter's mutex guards `has_rung`; the Ringer's mutex guards `ring_at`.
struct Wait {
  absl::Mutex* mutex = nullptr;
  const absl::Condition* condition = nullptr;
  absl::CondVar* variable = nullptr;
  absl::Duration ring_at;  // When the wait ends at the latest, as time since boot.
  bool has_rung = false;
};

bool IsOver(Wait* wait) { return wait->has_rung || wait->condition->Eval(); }

// The thread that ends waits when their time is over. It never blocks on a waiter's mutex, because the thread that
// holds that mutex may be about to add or remove a wait, which needs the Ringer's mutex. Never destroyed. Thread-safe.
class Ringer {
 public:
  Ringer() : timer_(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)) {
    // Start the thread with all signals blocked, because other threads of the process wait for signals.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { Run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // REQUIRES: the caller holds the wait's mutex.
  void Add(Wait* wait) {
    const std::lock_guard lock(mutex_);
    waits_.emplace(wait->ring_at, wait);
    if (waits_.begin()->second == wait) {
      SetTimer();
    }
  }

  // Removes a wait. When this function has returned, the Ringer does not access the wait again. REQUIRES: the caller
  // holds the wait's mutex.
  void Remove(Wait* wait) {
    const std::lock_guard lock(mutex_);
    waits_.erase({wait->ring_at, wait});
  }

 private:
  // The pause before the Ringer tries again to lock a waiter's mutex that another thread holds.
  static constexpr absl::Duration kRetry = absl::Milliseconds(1);

  void SetTimer() {
    itimerspec when = {};
    if (!waits_.empty()) {
      when.it_value = absl::ToTimespec(std::max(waits_.begin()->first, absl::Nanoseconds(1)));
    }
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  [[noreturn]] void Run() {
    while (true) {
      uint64_t expirations = 0;
      (void)!read(timer_.get(), &expirations, sizeof(expirations));
      const std::lock_guard lock(mutex_);
      const absl::Duration now = SystemClock().SinceBoot();
      while (!waits_.empty() && waits_.begin()->first <= now) {
        Wait* const wait = waits_.begin()->second;
        waits_.erase(waits_.begin());
        Ring(wait, now);
      }
      SetTimer();
    }
  }

  void Ring(Wait* wait, absl::Duration now) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::Mutex& mutex = *wait->mutex;
    if (mutex.TryLock()) {
      wait->has_rung = true;
      if (wait->variable != nullptr) {
        wait->variable->SignalAll();
      }
      mutex.Unlock();
    } else {
      wait->ring_at = now + kRetry;
      waits_.emplace(wait->ring_at, wait);
    }
  }

  const UniqueFd timer_;
  std::mutex mutex_;
  std::set<std::pair<absl::Duration, Wait*>> waits_;  // Waits in progress, ordered by `ring_at`.
};

Ringer& TheRinger() {
  static Ringer* const ringer = new Ringer;
  return *ringer;
}

}  // namespace

bool AwaitUntil(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration deadline) {
  if (condition.Eval()) {
    return true;
  }
  if (deadline == absl::InfiniteDuration()) {
    mutex.Await(condition);
    return true;
  }
  if (deadline <= SystemClock().SinceBoot()) {
    return false;
  }
  Wait wait = {.mutex = &mutex, .condition = &condition, .ring_at = deadline};
  TheRinger().Add(&wait);
  mutex.Await(absl::Condition(IsOver, &wait));
  TheRinger().Remove(&wait);
  return condition.Eval();
}

bool AwaitFor(absl::Mutex& mutex, const absl::Condition& condition, absl::Duration timeout) {
  return AwaitUntil(mutex, condition,
                    timeout == absl::InfiniteDuration() ? timeout : SystemClock().SinceBoot() + timeout);
}

}  // namespace ampd

#ifndef __SANITIZE_THREAD__  // Programs of the TSan build define these themselves (tests/sanitizer/absl_tsan.cc).
// Replacements for two functions of Debian's shared libabsl, whose timed waits depend on the wall clock. The dynamic
// linker prefers a program's definitions to a library's. gRPC uses these two functions for all its timers (keepalive,
// deadlines, pauses before reconnecting).
namespace absl {
ABSL_NAMESPACE_BEGIN

// Waits until the variable is signalled or `timeout` has passed, and returns true if it has passed. May also wake other
// threads that wait on the variable, although it was not signalled. Condition variables permit such spurious wake-ups
// at any time.
bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (timeout == InfiniteDuration()) {
    Wait(mutex);
    return false;
  }
  if (timeout <= ZeroDuration()) {
    mutex->Unlock();
    mutex->Lock();
    return true;
  }
  ampd::Wait wait = {.mutex = mutex, .variable = this, .ring_at = ampd::SystemClock().SinceBoot() + timeout};
  ampd::TheRinger().Add(&wait);
  Wait(mutex);
  ampd::TheRinger().Remove(&wait);
  return wait.has_rung;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  return WaitWithTimeout(mutex, deadline == InfiniteFuture() ? InfiniteDuration() : deadline - Now());
}

ABSL_NAMESPACE_END
}  // namespace absl
#endif
