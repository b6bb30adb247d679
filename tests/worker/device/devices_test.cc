#include "worker/device/devices.h"

#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ampd::device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Devices::Options WithoutGpus() {
  Devices::Options options;
  options.nvml_library = "libampd-there-is-no-such-library.so";
  return options;
}

TEST(Devices, HostWithoutNvml_HasItsCpuWithMemoryAndThreads) {
  absl::StatusOr<Devices> devices = Devices::Discover(WithoutGpus());
  ASSERT_TRUE(devices.ok());
  const std::vector<v1::Device> current = devices->Current();
  ASSERT_EQ(current.size(), 1u);
  EXPECT_EQ(current[0].id(), "cpu");
  EXPECT_EQ(current[0].kind(), v1::Device::CPU);
  EXPECT_GT(current[0].num_threads(), 0);
  EXPECT_GT(current[0].memory_free_bytes(), 0);
  EXPECT_GT(current[0].memory_total_bytes(), current[0].memory_free_bytes());
}

TEST(Devices, ThreadsAsAskedFor) {
  Devices::Options options = WithoutGpus();
  options.num_threads = 3;
  EXPECT_EQ(Devices::Discover(options)->Current()[0].num_threads(), 3);
}

TEST(Devices, UnknownDevice_IsAnErrorThatNamesThoseThatAreThere) {
  Devices::Options options = WithoutGpus();
  options.only = {"gpu0"};
  const absl::Status status = Devices::Discover(options).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no device 'gpu0' here; there is cpu"));
}

TEST(Devices, ThisHostsGpus_HaveNameCapabilityMemoryAndUuid) {
  absl::StatusOr<Devices> devices = Devices::Discover({});
  ASSERT_TRUE(devices.ok());
  int num_gpus = 0;
  for (const v1::Device& gpu : devices->Current()) {
    if (gpu.kind() != v1::Device::GPU) {
      continue;
    }
    ++num_gpus;
    std::printf("%s\n", gpu.ShortDebugString().c_str());
    EXPECT_FALSE(gpu.unhealthy());
    EXPECT_FALSE(gpu.name().empty());
    EXPECT_EQ(gpu.uuid().substr(0, 4), "GPU-");
    EXPECT_GE(gpu.capability_major(), 5);
    EXPECT_GT(gpu.memory_total_bytes(), gpu.memory_free_bytes());
    EXPECT_GT(gpu.memory_free_bytes(), 0);
  }
  if (num_gpus == 0) {
    GTEST_SKIP() << "needs a GPU: NVML shows none here";
  }
}

TEST(InstructionSetsIn, ThoseOfTheFirstCpu_InAFixedOrder) {
  EXPECT_THAT(InstructionSetsIn("model name\t: X\nflags\t\t: sse avx512_bf16 avx2 amx_bf16\n"),
              ElementsAre("avx2", "avx512_bf16", "amx_bf16"));
  EXPECT_THAT(InstructionSetsIn(""), ElementsAre());
}

TEST(MemoryFieldIn, KibibytesBecomeBytes) {
  EXPECT_EQ(MemoryFieldIn("MemTotal:       1024 kB\nMemAvailable:    2 kB\n", "MemAvailable"), 2048);
  EXPECT_EQ(MemoryFieldIn("MemTotal: nonsense kB\n", "MemTotal"), 0);
}

}  // namespace
}  // namespace ampd::device
