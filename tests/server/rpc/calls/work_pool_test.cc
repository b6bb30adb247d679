#include "server/rpc/calls/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace ampd::server {
namespace {

TEST(WorkPool, Stop_ReturnsAfterWhatWasPostedAndTakesNothingMore) {
  WorkPool pool(/*num_threads=*/2, /*capacity=*/8);
  absl::Notification stopping;
  std::atomic<int> num_done = 0;
  pool.Start();
  for (int i = 0; i < 4; ++i) {
    // Two of the four tasks run, and two wait in the queue.
    ASSERT_TRUE(pool.TryPost([&] {
      stopping.WaitForNotification();
      ++num_done;
    }));
  }
  stopping.Notify();
  pool.Stop();
  EXPECT_EQ(num_done, 4);
  EXPECT_FALSE(pool.TryPost([&] { ++num_done; }));
  pool.Stop();
  EXPECT_EQ(num_done, 4);
}

TEST(WorkPool, TryPost_RefusesWhatIsBeyondItsCapacity) {
  WorkPool pool(/*num_threads=*/1, /*capacity=*/1);
  int num_done = 0;
  EXPECT_TRUE(pool.TryPost([&] { ++num_done; }));
  EXPECT_FALSE(pool.TryPost([&] { ++num_done; })) << "nobody has taken the first yet";
  pool.Start();
  pool.Stop();
  EXPECT_EQ(num_done, 1);
}

TEST(WorkPool, TryPostIfIdle_TakesATaskOnlyWhenAThreadIsFree) {
  WorkPool pool(/*num_threads=*/2, /*capacity=*/8);
  pool.Start();
  absl::Notification release;
  std::atomic<int> num_done = 0;
  const auto wait = [&] {
    release.WaitForNotification();
    ++num_done;
  };
  EXPECT_TRUE(pool.TryPostIfIdle(wait));
  EXPECT_TRUE(pool.TryPostIfIdle(wait));
  EXPECT_FALSE(pool.TryPostIfIdle(wait)) << "both threads have a task";
  EXPECT_TRUE(pool.TryPost(wait)) << "it may wait";
  release.Notify();
  pool.Stop();
  EXPECT_EQ(num_done, 3);
  EXPECT_FALSE(pool.TryPostIfIdle(wait));
}

TEST(WorkPool, Then_FindsTheThreadFreeAndTheTaskDestroyed) {
  WorkPool pool(/*num_threads=*/1, /*capacity=*/8);
  pool.Start();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  absl::Notification done;
  bool was_destroyed = false, was_free = false;
  EXPECT_TRUE(pool.TryPost([held = std::move(held)] { ++*held; },
                           [&] {
                             was_destroyed = watched.expired();
                             was_free = pool.TryPostIfIdle([] {}, [&] { done.Notify(); });
                           }));
  done.WaitForNotificationWithTimeout(absl::Seconds(30));
  pool.Stop();
  EXPECT_TRUE(was_destroyed);
  EXPECT_TRUE(was_free);
}

}  // namespace
}  // namespace ampd::server
