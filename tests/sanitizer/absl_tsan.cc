// Makes ThreadSanitizer (TSan) understand absl's locks, in programs of a TSan build. The distribution's libabsl is not
// instrumented, so TSan sees neither its atomics nor its futexes. In addition, an absl::Condition is evaluated by
// whichever thread unlocks. Therefore this file defines absl's lock functions again, and the dynamic linker calls these
// definitions in place of the library's, also from gRPC. Each definition calls the library's function and reports to
// TSan what it does, as absl does when it is built with TSan. Nothing is suppressed: accesses that no lock guards are
// still reported, as absl_tsan_test.cc checks.
#include <sanitizer/tsan_interface.h>

#include <atomic>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/sanitizer/real_function.h"

namespace {

using ampd::sanitizer::RealFunction;

constexpr unsigned kRead = __tsan_mutex_read_lock;
constexpr unsigned kTry = __tsan_mutex_try_lock;
constexpr unsigned kTryFailed = __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed;

// A condition for which a thread waits. The object is on the stack of that thread, but another thread may evaluate the
// condition. Inside absl, the evaluating thread holds the lock, but it may have reported its unlock to TSan already. So
// Evaluate() itself reports the order of events to TSan: the evaluation comes after the writes of the waiter and of
// earlier holders, and before what the waiter and later holders do.
struct WaitersCondition {
  absl::Mutex* mutex;
  const absl::Condition* condition;

  bool Evaluate() {
    __tsan_acquire(this);
    __tsan_acquire(mutex);
    const bool holds = condition->Eval();
    __tsan_release(mutex);
    __tsan_release(this);
    return holds;
  }
};

void SayUnlocked(absl::Mutex* mutex, unsigned flags) {
  __tsan_mutex_pre_unlock(mutex, flags);
  __tsan_mutex_post_unlock(mutex, flags);
}

void SayLocked(absl::Mutex* mutex, unsigned flags) {
  __tsan_mutex_pre_lock(mutex, flags);
  __tsan_mutex_post_lock(mutex, flags, 0);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static auto* const real = RealFunction<void(Mutex*)>("_ZN4absl7debian35MutexD1Ev");
  real(this);
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
}

void Mutex::Lock() {
  static auto* const real = RealFunction<void(Mutex*)>("_ZN4absl7debian35Mutex4LockEv");
  __tsan_mutex_pre_lock(this, 0);
  real(this);
  __tsan_mutex_post_lock(this, 0, 0);
}

void Mutex::Unlock() {
  static auto* const real = RealFunction<void(Mutex*)>("_ZN4absl7debian35Mutex6UnlockEv");
  SayUnlocked(this, 0);
  real(this);
}

bool Mutex::TryLock() {
  static auto* const real = RealFunction<bool(Mutex*)>("_ZN4absl7debian35Mutex7TryLockEv");
  __tsan_mutex_pre_lock(this, kTry);
  const bool locked = real(this);
  __tsan_mutex_post_lock(this, locked ? kTry : kTryFailed, 0);
  return locked;
}

void Mutex::ReaderLock() {
  static auto* const real = RealFunction<void(Mutex*)>("_ZN4absl7debian35Mutex10ReaderLockEv");
  __tsan_mutex_pre_lock(this, kRead);
  real(this);
  __tsan_mutex_post_lock(this, kRead, 0);
}

void Mutex::ReaderUnlock() {
  static auto* const real = RealFunction<void(Mutex*)>("_ZN4absl7debian35Mutex12ReaderUnlockEv");
  SayUnlocked(this, kRead);
  real(this);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const real = RealFunction<bool(Mutex*, const Condition&, Time)>(
      "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  WaitersCondition seen = {this, &condition};
  SayUnlocked(this, 0);
  __tsan_release(&seen);
  const bool holds = real(this, Condition(&seen, &WaitersCondition::Evaluate), deadline);
  __tsan_acquire(&seen);
  SayLocked(this, 0);
  return holds;
}

void Mutex::Await(const Condition& condition) { AwaitWithDeadline(condition, InfiniteFuture()); }

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  return AwaitWithDeadline(condition, Now() + timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static auto* const real = RealFunction<bool(Mutex*, const Condition&, Time)>(
      "_ZN4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  WaitersCondition seen = {this, &condition};
  // Release here, because TSan ignores all other events between pre_lock and post_lock.
  __tsan_release(&seen);
  __tsan_mutex_pre_lock(this, 0);
  const bool holds = real(this, Condition(&seen, &WaitersCondition::Evaluate), deadline);
  __tsan_mutex_post_lock(this, 0, 0);
  __tsan_acquire(&seen);
  return holds;
}

void Mutex::LockWhen(const Condition& condition) { LockWhenWithDeadline(condition, InfiniteFuture()); }

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  return LockWhenWithDeadline(condition, Now() + timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const real =
      RealFunction<bool(CondVar*, Mutex*, Time)>("_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  SayUnlocked(mutex, 0);
  const bool timed_out = real(this, mutex, deadline);
  SayLocked(mutex, 0);
  return timed_out;
}

void CondVar::Wait(Mutex* mutex) { WaitWithDeadline(mutex, InfiniteFuture()); }

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) { return WaitWithDeadline(mutex, Now() + timeout); }

// Reports to TSan that everything before Notify() comes before everything after a wait. The report names the flag,
// because a thread that finds the flag set does not take the notification's lock.
void Notification::Notify() {
  static auto* const real = RealFunction<void(Notification*)>("_ZN4absl7debian312Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  real(this);
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static auto* const real = RealFunction<bool(const Notification*, Time)>(
      "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool notified = real(this, deadline);
  if (notified) {
    __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  }
  return notified;
}

void Notification::WaitForNotification() const { WaitForNotificationWithDeadline(InfiniteFuture()); }

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  return WaitForNotificationWithDeadline(Now() + timeout);
}

ABSL_NAMESPACE_END
}  // namespace absl
