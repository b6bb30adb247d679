#include "server/monitoring/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/simulated_clock.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;

constexpr int64_t kMib = 1 << 20;

class MemoryWatchTest : public testing::Test {
 protected:
  MemoryWatch Watch(int64_t limit_bytes) {
    return MemoryWatch({.limit_bytes = limit_bytes,
                        .clock = &clock_,
                        .resident_bytes = [this] { return resident_; },
                        .give_back =
                            [this] {
                              ++num_given_back_;
                              resident_ -= free_;
                              free_ = 0;
                            }});
  }

  SimulatedClock clock_;
  int64_t resident_ = 50 * kMib;
  int64_t free_ = 0;  // How many of the resident bytes can be given back to the system.
  int num_given_back_ = 0;
};

TEST_F(MemoryWatchTest, BelowTheLimitThereIsRoom) {
  MemoryWatch watch = Watch(50 * kMib);
  EXPECT_TRUE(watch.Look().ok());
  EXPECT_TRUE(watch.HasRoom());
  EXPECT_EQ(num_given_back_, 0);
}

TEST_F(MemoryWatchTest, AboveTheLimitFreeMemoryIsGivenBackFirst) {
  MemoryWatch watch = Watch(50 * kMib);
  resident_ = 80 * kMib;
  free_ = 40 * kMib;
  EXPECT_TRUE(watch.Look().ok());
  EXPECT_TRUE(watch.HasRoom());
  EXPECT_EQ(num_given_back_, 1);
}

TEST_F(MemoryWatchTest, AboveTheLimitThereIsNoRoomUntilItSinks) {
  MemoryWatch watch = Watch(50 * kMib);
  resident_ = 62 * kMib;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(watch.Look().ok()) << "not far enough above to end";
    EXPECT_FALSE(watch.HasRoom());
    clock_.Advance(absl::Seconds(1));
  }
  resident_ = 49 * kMib;
  EXPECT_TRUE(watch.Look().ok());
  EXPECT_TRUE(watch.HasRoom());
}

TEST_F(MemoryWatchTest, FarAboveTheLimitForTenSecondsTheServerShouldEnd) {
  MemoryWatch watch = Watch(40 * kMib);
  resident_ = 51 * kMib;
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(watch.Look().ok());
    clock_.Advance(absl::Seconds(1));
  }
  resident_ = 50 * kMib;  // Exactly a quarter above the limit, so the ten seconds start over.
  EXPECT_TRUE(watch.Look().ok());
  resident_ = 51 * kMib;
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(watch.Look().ok());
  clock_.Advance(absl::Seconds(10));
  const absl::Status ended = watch.Look();
  EXPECT_EQ(ReasonOf(ended), "MEMORY_LIMIT_EXCEEDED");
  EXPECT_THAT(std::string(ended.message()),
              HasSubstr("takes 51 MiB of memory, far more than its --memory-limit 40MiB"));
}

TEST_F(MemoryWatchTest, WithoutALimitNothingIsMeasured) {
  MemoryWatch watch = Watch(0);
  resident_ = int64_t{1} << 60;
  EXPECT_TRUE(watch.Look().ok());
  EXPECT_TRUE(watch.HasRoom());
}

TEST(ResidentBytes, GrowsWithWhatTheProcessUses) {
  const int64_t before = ResidentBytes();
  EXPECT_GT(before, kMib);
  std::vector<char> used(64 * kMib);
  std::memset(used.data(), 1, used.size());
  EXPECT_GT(ResidentBytes(), before + 60 * kMib) << static_cast<int>(used[used.size() / 2]);
}

class MemoryOfSystemTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = folder_.Path(path);
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string Root() { return folder_.Path(""); }

  TemporaryFolder folder_;
};

TEST_F(MemoryOfSystemTest, WithoutAControlGroupItIsThatOfTheHost) {
  EXPECT_GT(MemoryOfSystem(Root()), 64 * kMib);
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_GT(MemoryOfSystem(Root()), 64 * kMib);
}

TEST_F(MemoryOfSystemTest, ALimitOfTheGroupOrOfOneAboveCounts) {
  Write("proc/self/cgroup", "4:cpu:/x\n0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "33554432\n");
  EXPECT_EQ(MemoryOfSystem(Root()), 32 * kMib);
  Write("sys/fs/cgroup/a/memory.max", "16777216\n");
  EXPECT_EQ(MemoryOfSystem(Root()), 16 * kMib);
  Write("proc/self/cgroup", "0::/\n");  // The content in a container.
  Write("sys/fs/cgroup/memory.max", "8388608\n");
  EXPECT_EQ(MemoryOfSystem(Root()), 8 * kMib);
}

}  // namespace
}  // namespace ampd::server
