#include "worker/device/devices.h"

#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/written_files.h"
#include "tests/worker/device/fake_nvml.h"

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

// A container with 1 CPU and 64 MiB of memory, of which 48 MiB are in use.
TEST(Devices, TheLimitsOfAContainer_AreThoseOfTheCpu) {
  const WrittenFiles files;
  files.Write("/proc/self/cgroup", "0::/\n");
  files.Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  files.Write("/sys/fs/cgroup/memory.max", "67108864\n");
  files.Write("/sys/fs/cgroup/memory.current", "50331648\n");
  Devices::Options options = WithoutGpus();
  options.control_group_root = files.root();
  const v1::Device cpu = Devices::Discover(options)->Current()[0];
  EXPECT_EQ(cpu.num_threads(), 1);
  EXPECT_EQ(cpu.memory_total_bytes(), 64 << 20);
  EXPECT_EQ(cpu.memory_free_bytes(), 16 << 20);
}

// The server can't read a report in which a text is not UTF-8, and refuses one with a longer name.
TEST(Devices, NameOfTheCpuThatIsLongAndNotUtf8_IsMadeAcceptable) {
  const WrittenFiles files;
  files.Write("/proc/cpuinfo", "model name\t: caf\xe9 " + std::string(300, 'x') + "\n");
  Devices::Options options = WithoutGpus();
  options.proc_folder = files.root() + "/proc";
  const std::string name = Devices::Discover(options)->Current()[0].name();
  EXPECT_EQ(name.substr(0, 6), "caf? x");
  EXPECT_EQ(name.size(), 256u);
}

TEST(Devices, UnknownDevice_IsAnErrorThatNamesThoseThatAreThere) {
  Devices::Options options = WithoutGpus();
  options.only = {"gpu0"};
  const absl::Status status = Devices::Discover(options).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no device 'gpu0' here; there is cpu"));
}

std::string TestLibrary(const std::string& name) { return std::string(AMPD_TEST_LIBRARIES) + "/lib" + name + ".so"; }

// Tests on a host with a fake NVML, which the test controls through `nvml_`.
class FakeGpus : public testing::Test {
 protected:
  explicit FakeGpus(const std::string& name = "fake_nvml")
      : path_(TestLibrary(name)),
        library_(dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL), &dlclose),
        nvml_(library_ == nullptr ? nullptr : static_cast<FakeNvml*>(dlsym(library_.get(), "fake_nvml"))) {}

  void SetUp() override {
    ASSERT_NE(nvml_, nullptr) << path_;
    *nvml_ = FakeNvml();
  }

  Devices Discover() {
    Devices::Options options;
    options.nvml_library = path_;
    return Devices::Discover(options).value();
  }

  void Fail(const char* call, unsigned gpu = 1) {
    nvml_->failing_call = call;
    nvml_->failing_gpu = gpu;
  }

  const std::string path_;
  const std::unique_ptr<void, int (*)(void*)> library_;  // keeps the fake library loaded during the test
  FakeNvml* const nvml_;
};

class FakeGpusLackingAFunction : public FakeGpus {
 protected:
  FakeGpusLackingAFunction() : FakeGpus("fake_nvml_lacking") {}
};

// Returns a text such as "gpu0 Fake H0 GPU-00... 8.6 unhealthy: why".
std::string Line(const v1::Device& gpu) {
  return absl::StrCat(gpu.id(), " ", gpu.name(), " ", gpu.uuid(), " ", gpu.capability_major(), ".",
                      gpu.capability_minor(), gpu.unhealthy() ? " unhealthy: " : "", gpu.unhealthy_reason());
}

constexpr char kGpu0[] = "gpu0 Fake H0 GPU-00000000-0000-0000-0000-000000000000 8.6";
constexpr char kGpu1[] = "gpu1 Fake H1 GPU-00000000-0000-0000-0000-000000000001 9.6";

TEST_F(FakeGpus, TwoGpus_HaveNameUuidCapabilityAndMemory) {
  nvml_->used_bytes = 5ll << 30;
  const std::vector<v1::Device> current = Discover().Current();
  ASSERT_EQ(current.size(), 3u);
  EXPECT_EQ(current[0].id(), "cpu");
  EXPECT_EQ(Line(current[1]), kGpu0);
  EXPECT_EQ(Line(current[2]), kGpu1);
  for (size_t i = 1; i < current.size(); ++i) {
    EXPECT_EQ(current[i].kind(), v1::Device::GPU);
    const int64_t total = (64ll << 30) << (i - 1);
    EXPECT_EQ(current[i].memory_total_bytes(), total);
    EXPECT_EQ(current[i].memory_free_bytes(), total - (5ll << 30));
  }
}

TEST_F(FakeGpus, OneOfTwoAskedFor_IsTheOneOfThatNumber) {
  Devices::Options options;
  options.nvml_library = path_;
  options.only = {"gpu1"};
  const std::vector<v1::Device> current = Devices::Discover(options)->Current();
  ASSERT_EQ(current.size(), 1u);
  EXPECT_EQ(Line(current[0]), kGpu1);
  EXPECT_EQ(current[0].memory_total_bytes(), 128ll << 30);
}

TEST_F(FakeGpus, GpusThatTheEnvironmentHides_AreNotThere) {
  nvml_->num_gpus = 4;
  Devices::Options options;
  options.nvml_library = path_;
  options.visible_gpus = "3,GPU-00000000-0000-0000-0000-000000000001,7,0";
  absl::StatusOr<Devices> devices = Devices::Discover(options);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(devices->ids(), ElementsAre("cpu", "gpu3", "gpu1"));
  EXPECT_EQ(devices->num_hidden(), 2u);
  const std::vector<v1::Device> current = devices->Current();
  EXPECT_EQ(Line(current[2]), kGpu1);
  EXPECT_EQ(current[1].memory_total_bytes(), (64ll << 30) << 3) << "the id is that of NVML";
}

TEST_F(FakeGpus, EnvironmentWithoutAGpu_LeavesTheCpu) {
  Devices::Options options;
  options.nvml_library = path_;
  options.visible_gpus = "";
  EXPECT_THAT(Devices::Discover(options)->ids(), ElementsAre("cpu"));
}

TEST_F(FakeGpus, DevicesAskedFor_AreThereThoughTheEnvironmentHidesThem) {
  Devices::Options options;
  options.nvml_library = path_;
  options.only = {"gpu1"};
  options.visible_gpus = "MIG-1234";
  EXPECT_THAT(Devices::Discover(options)->ids(), ElementsAre("gpu1"));
  options.only = {};
  EXPECT_TRUE(absl::IsInvalidArgument(Devices::Discover(options).status()));
}

TEST_F(FakeGpus, Memory_IsThatOfTheMomentWhenItIsAskedFor) {
  Devices devices = Discover();
  const int64_t before = devices.Current()[1].memory_free_bytes();
  nvml_->used_bytes = 7ll << 30;
  EXPECT_EQ(devices.Current()[1].memory_free_bytes(), before - (7ll << 30));
}

TEST_F(FakeGpus, LibraryIsShutDownAsOftenAsItIsInitialised) {
  {
    const Devices devices = Discover();
    EXPECT_EQ(nvml_->num_inits, 1);
    EXPECT_EQ(nvml_->num_shutdowns, 0);
  }
  EXPECT_EQ(nvml_->num_shutdowns, 1);
  Fail("nvmlDeviceGetCount_v2");
  EXPECT_EQ(Discover().Current().size(), 1u) << "a library that can't count its GPUs";
  EXPECT_EQ(nvml_->num_inits, 2);
  EXPECT_EQ(nvml_->num_shutdowns, 2);
}

TEST_F(FakeGpus, FailingInit_LeavesTheCpuAlone_AndIsNotShutDown) {
  Fail("nvmlInit_v2");
  EXPECT_EQ(Discover().Current().size(), 1u);
  EXPECT_EQ(nvml_->num_shutdowns, 0);
}

TEST_F(FakeGpusLackingAFunction, LeavesTheCpuAlone_AndIsNotInitialised) {
  EXPECT_EQ(Discover().Current().size(), 1u);
  EXPECT_EQ(nvml_->num_inits, 0);
}

TEST_F(FakeGpus, GpuThatCannotBeIdentified_StaysUnhealthyWithTheReason_AndTheOtherIsWell) {
  for (const auto& [call, known] :
       {std::pair{"nvmlDeviceGetHandleByIndex", "gpu1   0.0"}, std::pair{"nvmlDeviceGetName", "gpu1   0.0"},
        std::pair{"nvmlDeviceGetUUID", "gpu1 Fake H1  0.0"},
        std::pair{"nvmlDeviceGetCudaComputeCapability", "gpu1 Fake H1 GPU-00000000-0000-0000-0000-000000000001 0.0"}}) {
    Fail(call);
    Devices devices = Discover();
    Fail("");  // Even without further errors, a GPU that could not be identified stays unhealthy.
    const std::vector<v1::Device> current = devices.Current();
    ASSERT_EQ(current.size(), 3u) << call;
    EXPECT_EQ(Line(current[1]), kGpu0);
    EXPECT_EQ(Line(current[2]), absl::StrCat(known, " unhealthy: ", call, " returns 15: GPU is lost"));
    EXPECT_EQ(current[2].memory_total_bytes(), 0);
    EXPECT_EQ(current[2].memory_free_bytes(), 0);
  }
}

TEST_F(FakeGpus, GpuThatFallsSilent_IsUnhealthyUntilItAnswersAgain) {
  Devices devices = Discover();
  Fail("nvmlDeviceGetMemoryInfo");
  const std::vector<v1::Device> lost = devices.Current();
  EXPECT_EQ(Line(lost[1]), kGpu0);
  EXPECT_EQ(Line(lost[2]), absl::StrCat(kGpu1, " unhealthy: nvmlDeviceGetMemoryInfo returns 15: GPU is lost"));
  EXPECT_EQ(lost[2].memory_free_bytes(), 0);
  Fail("");
  EXPECT_EQ(Line(devices.Current()[2]), kGpu1);
  EXPECT_GT(devices.Current()[2].memory_free_bytes(), 0);
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
