#include "base/io/control_group.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/base/written_files.h"

namespace ampd {
namespace {

constexpr int64_t kMib = 1 << 20;

class ControlGroup : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const { files_.Write(path, text); }
  ControlGroupLimits Limits() const { return ReadControlGroupLimits(files_.root()); }

  const WrittenFiles files_;
};

TEST_F(ControlGroup, WithoutFilesOrLimits_NothingIsLimited) {
  EXPECT_EQ(Limits().memory_bytes, std::nullopt);
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/memory.current", "5242880\n");
  Write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(Limits().memory_bytes, std::nullopt);
  EXPECT_EQ(Limits().memory_free_bytes, std::nullopt);
  EXPECT_EQ(Limits().num_cpus, std::nullopt);
}

TEST_F(ControlGroup, TheSmallestLimitCounts_OfTheGroupAndOfThoseAroundIt) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "33554432\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(Limits().memory_bytes, 32 * kMib);
  EXPECT_EQ(Limits().num_cpus, 4);
  Write("/sys/fs/cgroup/a/memory.max", "16777216\n");
  Write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(Limits().memory_bytes, 16 * kMib);
  EXPECT_EQ(Limits().num_cpus, 2) << "1.5 CPUs keep two threads busy";
}

TEST_F(ControlGroup, FreeMemory_CountsWhatTheKernelCanDropAsFree) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "33554432\n");
  EXPECT_EQ(Limits().memory_free_bytes, std::nullopt) << "the usage is unknown";
  Write("/sys/fs/cgroup/memory.current", "20971520\n");
  EXPECT_EQ(Limits().memory_free_bytes, 12 * kMib);
  Write("/sys/fs/cgroup/memory.stat", "anon 4096\ninactive_file 8388608\nactive_file 4096\n");
  EXPECT_EQ(Limits().memory_free_bytes, 20 * kMib);
  Write("/sys/fs/cgroup/memory.current", "41943040\n");
  EXPECT_EQ(Limits().memory_free_bytes, 0);
}

// In a container, /proc/self/cgroup may name the group by its path on the host, although the group's own files are
// directly in the mount point.
TEST_F(ControlGroup, Version1_InAContainer) {
  Write("/proc/self/cgroup", "7:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n1:name=systemd:/docker/1f\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "8388608\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "inactive_file 0\ntotal_inactive_file 4194304\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Limits().memory_bytes, 32 * kMib);
  EXPECT_EQ(Limits().memory_free_bytes, 28 * kMib);
  EXPECT_EQ(Limits().num_cpus, 1);
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Limits().num_cpus, std::nullopt);
}

TEST_F(ControlGroup, FilesWithOtherContent_LimitNothing) {
  Write("/proc/self/cgroup", "\n:\n0:\n0::/a\n0::b\nx:memory:\n");
  for (const char* const text : {"", "-5\n", "0\n", "many\n", "99999999999999999999\n"}) {
    Write("/sys/fs/cgroup/a/memory.max", text);
    Write("/sys/fs/cgroup/a/cpu.max", text);
    Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", text);
    EXPECT_EQ(Limits().memory_bytes, std::nullopt) << text;
    EXPECT_EQ(Limits().num_cpus, std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ampd
