// In this program the wall clock is always one hour ahead of the kernel's clock. A real program sees the same when the
// clock is set back by an hour after it was read. If a wait computes its end from the wall clock and lets the kernel
// wait until then, it lasts an hour too long, and its test fails.
#include "base/timed_wait.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/clock.h"

// Replaces the C library's function in the whole program, including its shared libraries: adds one hour to the wall
// clock.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  time->tv_sec += clock == CLOCK_REALTIME ? 3600 : 0;
  return static_cast<int>(result);
}

// Replaces the C library's gettimeofday too, with which Abseil's locks compute timeouts.
extern "C" int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  const long result = syscall(SYS_gettimeofday, time, nullptr);
  time->tv_sec += 3600;
  return static_cast<int>(result);
}

namespace ampd {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(20);
constexpr absl::Duration kTooLong = absl::Seconds(60);

TEST(TimedWait, TheWallClockOfThisProgramIsAhead) {
  EXPECT_GT(absl::ToUnixSeconds(absl::Now()), time(nullptr) + 3000) << "the other tests show nothing";
}

TEST(TimedWait, EndsInTime) {
  absl::Mutex mutex;
  bool never = false;
  absl::MutexLock lock(&mutex);
  const absl::Duration begin = SystemClock().SinceBoot();
  EXPECT_FALSE(AwaitFor(mutex, absl::Condition(&never), kShort));
  const absl::Duration took = SystemClock().SinceBoot() - begin;
  EXPECT_GE(took, kShort);
  EXPECT_LT(took, kTooLong);
  EXPECT_FALSE(AwaitUntil(mutex, absl::Condition(&never), begin));
  EXPECT_FALSE(AwaitFor(mutex, absl::Condition(&never), -absl::InfiniteDuration()));
}

TEST(TimedWait, EndsWhenTheConditionHolds) {
  absl::Mutex mutex;
  bool done = false;
  std::thread setter([&] {
    absl::MutexLock lock(&mutex);
    done = true;
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(AwaitFor(mutex, absl::Condition(&done), absl::Hours(1)));
    EXPECT_TRUE(AwaitFor(mutex, absl::Condition(&done), absl::ZeroDuration()));
    EXPECT_TRUE(AwaitFor(mutex, absl::Condition(&done), absl::InfiniteDuration()));
  }
  setter.join();
}

// Many threads wait at the same time with different deadlines: some on one shared mutex, each of the others on its own
// mutex.
TEST(TimedWait, ManyAtOnce_EndEachInItsTime) {
  constexpr int kWaiters = 16;
  constexpr int kRounds = 25;
  absl::Mutex shared;
  bool never = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWaiters; ++i) {
    threads.emplace_back([&, i] {
      absl::Mutex own;
      absl::Mutex& mutex = i % 2 == 0 ? shared : own;
      for (int round = 0; round < kRounds; ++round) {
        const absl::Duration wait = absl::Microseconds(100 * ((i * 7 + round * 3) % 20));
        const absl::Duration begin = SystemClock().SinceBoot();
        absl::MutexLock lock(&mutex);
        EXPECT_FALSE(AwaitFor(mutex, absl::Condition(&never), wait));
        const absl::Duration took = SystemClock().SinceBoot() - begin;
        EXPECT_GE(took, wait);
        EXPECT_LT(took, kTooLong);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Tests absl::CondVar, on which gRPC's timers wait. In this program, base/timed_wait.cc replaces its timed waits.
TEST(TimedWait, ConditionVariables_EndInTimeOrWhenSignalled) {
  absl::Mutex mutex;
  absl::CondVar variable;
  bool done = false;
  absl::Duration begin = SystemClock().SinceBoot();
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(variable.WaitWithTimeout(&mutex, kShort));
    EXPECT_TRUE(variable.WaitWithDeadline(&mutex, absl::Now() + kShort));
    EXPECT_TRUE(variable.WaitWithDeadline(&mutex, absl::InfinitePast()));
    EXPECT_GE(SystemClock().SinceBoot() - begin, 2 * kShort - absl::Milliseconds(1));
    EXPECT_LT(SystemClock().SinceBoot() - begin, kTooLong);
  }
  std::thread signaller([&] {
    absl::MutexLock lock(&mutex);
    done = true;
    variable.Signal();
  });
  {
    absl::MutexLock lock(&mutex);
    while (!done) {
      EXPECT_FALSE(variable.WaitWithTimeout(&mutex, absl::Hours(1)));
    }
  }
  signaller.join();
}

// Two threads, A and B, wait with deadlines. During its wait, A holds the mutex that B must lock again when B's wait
// ends.
TEST(TimedWait, OneUnderAnothersMutex_EndsInTimeToo) {
  absl::Mutex outer;
  absl::Mutex inner;
  bool never = false;
  bool waits = false;
  std::thread waiter([&] {
    absl::MutexLock lock(&outer);
    waits = true;
    AwaitFor(outer, absl::Condition(&never), kShort / 4);
  });
  absl::MutexLock lock(&outer);
  outer.Await(absl::Condition(&waits));
  {
    absl::MutexLock inside(&inner);
    const absl::Duration begin = SystemClock().SinceBoot();
    EXPECT_FALSE(AwaitFor(inner, absl::Condition(&never), kShort));
    EXPECT_LT(SystemClock().SinceBoot() - begin, kTooLong);
  }
  outer.Unlock();
  waiter.join();
  outer.Lock();
}

}  // namespace
}  // namespace ampd
