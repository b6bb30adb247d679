#include "base/io/host_stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "base/io/file.h"

namespace ampd {
namespace {

class PressureTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/pressure_test_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(PressureTest, IsTheTimeInWhichSomeTaskWaited) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/cpu",
                                  "some avg10=1.50 avg60=0.00 avg300=0.00 total=2500000\n"
                                  "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n")
                  .ok());
  EXPECT_EQ(ReadPressureSeconds("cpu", folder_), 2.5);
}

TEST_F(PressureTest, IsNothingWhereTheKernelDoesNotShowIt) {
  EXPECT_EQ(ReadPressureSeconds("cpu", folder_), std::nullopt);
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/io", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").ok());
  EXPECT_EQ(ReadPressureSeconds("io", folder_), std::nullopt);
}

TEST(DiskSpace, IsThatOfTheFoldersDisk) {
  const absl::StatusOr<DiskSpace> disk = ReadDiskSpace(testing::TempDir());
  ASSERT_TRUE(disk.ok()) << disk.status();
  const auto expected = std::filesystem::space(testing::TempDir());
  EXPECT_EQ(disk->size_bytes, static_cast<int64_t>(expected.capacity));
  EXPECT_GT(disk->free_bytes, 0);
  EXPECT_LE(disk->free_bytes, disk->size_bytes);
  EXPECT_FALSE(ReadDiskSpace("/no/such/folder").ok());
}

TEST(ProcessStats, AreThoseOfThisProcess) {
  const ProcessStats stats = ReadProcessStats();
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(stats.start_unix_seconds, now + 1);
  EXPECT_GT(stats.start_unix_seconds, now - 3600);
  EXPECT_GT(stats.resident_bytes, 1 << 20);
  EXPECT_GE(stats.num_open_files, 3);
  const int opened = dup(0);
  EXPECT_EQ(ReadProcessStats().num_open_files, stats.num_open_files + 1);
  close(opened);
  EXPECT_EQ(stats.max_open_files, static_cast<double>(sysconf(_SC_OPEN_MAX)));
}

}  // namespace
}  // namespace ampd
