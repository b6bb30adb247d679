// Checks that TSan understands absl's locks through absl_tsan.cc, and that it still reports accesses that no lock
// guards.
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace ampd::sanitizer {
namespace {

constexpr int kRounds = 2000;
constexpr int kReported = 66;  // TSan's exit status after a report

// A queue whose readers wait for an item with absl::Condition. The queues of ampd work in the same way.
struct Queue {
  absl::Mutex mutex;
  std::vector<int> items ABSL_GUARDED_BY(mutex);
  int num_taken ABSL_GUARDED_BY(mutex) = 0;

  bool HasItem() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !items.empty(); }
};

TEST(AbslUnderTsan, ConditionsEvaluatedByOtherThreads_AreNoRace) {
  Queue queue;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&queue] {
      for (int round = 0; round < kRounds; ++round) {
        absl::MutexLock lock(&queue.mutex, absl::Condition(&queue, &Queue::HasItem));
        queue.items.pop_back();
        ++queue.num_taken;
        queue.mutex.AwaitWithTimeout(absl::Condition(&queue, &Queue::HasItem), absl::Microseconds(1));
      }
    });
  }
  for (int i = 0; i < 3 * kRounds; ++i) {
    absl::MutexLock lock(&queue.mutex);
    queue.items.push_back(i);
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  absl::MutexLock lock(&queue.mutex);
  EXPECT_EQ(queue.num_taken, 3 * kRounds);
}

TEST(AbslUnderTsan, NotificationOrdersWhatCameBeforeIt) {
  for (int round = 0; round < kRounds / 10; ++round) {
    absl::Notification written;
    int value = 0;
    std::thread writer([&] {
      value = round;
      written.Notify();
    });
    if (round % 2 == 0) {
      written.WaitForNotification();
    } else {
      while (!written.HasBeenNotified()) {
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(value, round);
    writer.join();
  }
}

TEST(AbslUnderTsan, ReadersAndWriters_AreNoRace) {
  absl::Mutex mutex;
  int value = 0;
  std::thread writer([&] {
    for (int round = 0; round < kRounds; ++round) {
      absl::MutexLock lock(&mutex);
      ++value;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    absl::ReaderMutexLock lock(&mutex);
    EXPECT_LE(value, kRounds);
  }
  writer.join();
}

// One thread writes with the lock; then another thread writes without it. The second write certainly comes later, but
// nothing that TSan sees orders the two writes, so TSan must report a race.
void WriteWithoutTheLock() {
  absl::Mutex mutex;
  int value = 0;
  std::atomic<bool> written = false;
  std::thread careful([&] {
    absl::MutexLock lock(&mutex);
    ++value;
    written.store(true, std::memory_order_relaxed);
  });
  while (!written.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
  ++value;
  careful.join();
}

TEST(AbslUnderTsanDeathTest, WriteWithoutTheLock_IsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        WriteWithoutTheLock();
        std::exit(0);
      },
      testing::ExitedWithCode(kReported), "data race");
}

// Takes two locks in one order, and later in the other order. Nothing hangs here, but two threads that did this at the
// same time could deadlock.
void LockInBothOrders() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::Mutex first, second;
  std::thread([&] {
    absl::MutexLock outer(&first);
    absl::MutexLock inner(&second);
  }).join();
  std::thread([&] {
    absl::MutexLock outer(&second);
    absl::MutexLock inner(&first);
  }).join();
}

TEST(AbslUnderTsanDeathTest, LocksInBothOrders_AreReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        LockInBothOrders();
        std::exit(0);
      },
      testing::ExitedWithCode(kReported), "lock-order-inversion");
}

}  // namespace
}  // namespace ampd::sanitizer
