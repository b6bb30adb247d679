#include "worker/device/gpu_monitor.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/device/fake_nvml.h"
#include "worker/device/gpu_watch.h"

namespace ampd::device {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class FakeGpuMonitor : public testing::Test {
 protected:
  FakeGpuMonitor() : library_(dlopen(Path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    nvml_ = library_ == nullptr ? nullptr : static_cast<FakeNvml*>(dlsym(library_, "fake_nvml"));
    if (nvml_ != nullptr) {
      *nvml_ = FakeNvml();
    }
  }
  ~FakeGpuMonitor() override { dlclose(library_); }
  void SetUp() override { ASSERT_NE(nvml_, nullptr); }

  static std::string Path() { return AMPD_TEST_LIBRARIES "/libfake_nvml.so"; }

  void* library_;
  FakeNvml* nvml_;
};

TEST_F(FakeGpuMonitor, ReadsEveryValueInItsUnit) {
  nvml_->used_bytes = 5 << 20;
  nvml_->millijoules = 1'234'000;
  const auto monitor = GpuMonitor::Open({}, Path());
  ASSERT_NE(monitor, nullptr);
  EXPECT_EQ(monitor->driver_version(), "580.65.06");
  const auto gpus = monitor->Read();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[1].id, "gpu1");
  EXPECT_EQ(gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(gpus[1].name, "Fake H1");
  EXPECT_EQ(gpus[1].memory_total_bytes, int64_t{128} << 30);
  EXPECT_EQ(gpus[1].memory_used_bytes, 5 << 20);
  EXPECT_DOUBLE_EQ(gpus[1].utilization.value(), 0.76);
  EXPECT_EQ(gpus[1].temperature_celsius, 51);
  EXPECT_DOUBLE_EQ(gpus[1].power_watts.value(), 312.5);
  EXPECT_DOUBLE_EQ(gpus[1].power_limit_watts.value(), 700);
  EXPECT_DOUBLE_EQ(gpus[1].sm_clock_hertz.value(), 1980e6);
  EXPECT_DOUBLE_EQ(gpus[1].memory_clock_hertz.value(), 2619e6);
  EXPECT_DOUBLE_EQ(gpus[0].energy_joules.value(), 1234);
  EXPECT_EQ(gpus[1].ecc_errors_corrected, 3);
  EXPECT_EQ(gpus[1].ecc_errors_uncorrected, 1);
  EXPECT_THAT(gpus[1].num_xid_errors, IsEmpty());
}

TEST_F(FakeGpuMonitor, AValueThatTheGpuDoesNotHave_IsUnset) {
  nvml_->failing_gpu = 0;
  nvml_->failing_call = "nvmlDeviceGetTotalEccErrors";
  const auto monitor = GpuMonitor::Open({}, Path());
  ASSERT_NE(monitor, nullptr);
  const auto gpus = monitor->Read();
  EXPECT_EQ(gpus[0].ecc_errors_corrected, std::nullopt);
  EXPECT_EQ(gpus[0].ecc_errors_uncorrected, std::nullopt);
  EXPECT_TRUE(gpus[0].power_watts.has_value());
  EXPECT_TRUE(gpus[1].ecc_errors_corrected.has_value());
}

TEST_F(FakeGpuMonitor, FaultsAreCountedByTheirXid) {
  const auto monitor = GpuMonitor::Open({}, Path());
  ASSERT_NE(monitor, nullptr);
  nvml_->xid = 79;
  nvml_->num_xids = 2;
  EXPECT_THAT(monitor->Read()[1].num_xid_errors, ElementsAre(Pair(79, 2)));
  nvml_->xid = 31;
  nvml_->num_xids = 1;
  const auto gpus = monitor->Read();
  EXPECT_THAT(gpus[1].num_xid_errors, ElementsAre(Pair(31, 1), Pair(79, 2)));
  EXPECT_THAT(gpus[0].num_xid_errors, IsEmpty());
}

TEST_F(FakeGpuMonitor, ReadsOnlyTheGpusThatAreWanted) {
  const auto monitor = GpuMonitor::Open({"cpu", "gpu1"}, Path());
  ASSERT_NE(monitor, nullptr);
  const auto gpus = monitor->Read();
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].id, "gpu1");
  EXPECT_EQ(GpuMonitor::Open({"cpu"}, Path()), nullptr);
}

TEST_F(FakeGpuMonitor, MemoryOfThisProcess_IsKnownIfTheDriverListsIt) {
  nvml_->own_bytes = 3 << 20;
  EXPECT_EQ(GpuMonitor::Open({"gpu0"}, Path())->Read()[0].own_memory_bytes, 3 << 20);
  nvml_->own_bytes = 0;
  EXPECT_EQ(GpuMonitor::Open({"gpu0"}, Path())->Read()[0].own_memory_bytes, std::nullopt);
}

TEST_F(FakeGpuMonitor, AWatchSumsUpWhatHappensAfterItsBegin) {
  nvml_->used_bytes = 10 << 20;
  nvml_->own_bytes = 7 << 20;
  const auto watch = GpuWatch::Open("gpu1", Path());
  ASSERT_NE(watch, nullptr);
  EXPECT_DOUBLE_EQ(watch->newest().power_watts.value(), 312.5);
  nvml_->ecc_errors += 2;
  nvml_->xid = 79;
  nvml_->num_xids = 3;
  watch->Update();
  const v1::GpuUse use = watch->Use(/*reserved_bytes=*/5 << 20);
  EXPECT_DOUBLE_EQ(use.mean_power_watts(), 312.5);
  EXPECT_DOUBLE_EQ(use.mean_utilization(), 0.76);
  EXPECT_DOUBLE_EQ(use.max_temperature_celsius(), 51);
  EXPECT_DOUBLE_EQ(use.mean_sm_clock_hertz(), 1980e6);
  EXPECT_EQ(use.ecc_errors_corrected(), 0);
  EXPECT_EQ(use.ecc_errors_uncorrected(), 2);
  EXPECT_EQ(use.xid_errors().at(79), 3);
  EXPECT_EQ(use.context_bytes(), 2 << 20);
  EXPECT_EQ(use.others_bytes(), 3 << 20);
}

TEST_F(FakeGpuMonitor, AWatchOfAGpuThatReportsNothing_HasNothing) {
  nvml_->num_gpus = 1;
  EXPECT_EQ(GpuWatch::Open("gpu1", Path()), nullptr);
  nvml_->failing_gpu = 0;
  nvml_->failing_call = "nvmlDeviceGetPowerUsage";
  const auto watch = GpuWatch::Open("gpu0", Path());
  ASSERT_NE(watch, nullptr);
  watch->Update();
  EXPECT_FALSE(watch->Use(0).has_mean_power_watts());
  EXPECT_TRUE(watch->Use(0).has_mean_utilization());
}

TEST_F(FakeGpuMonitor, WithoutNvmlOrGpus_ThereIsNoMonitor) {
  EXPECT_EQ(GpuMonitor::Open({}, "libno-such-library.so"), nullptr);
  nvml_->num_gpus = 0;
  EXPECT_EQ(GpuMonitor::Open({}, Path()), nullptr);
  nvml_->failing_call = "nvmlInit_v2";
  EXPECT_EQ(GpuMonitor::Open({}, Path()), nullptr);
  EXPECT_EQ(nvml_->num_inits, nvml_->num_shutdowns);
}

TEST_F(FakeGpuMonitor, ReleasesWhatItOpened) {
  {
    const auto monitor = GpuMonitor::Open({}, Path());
    EXPECT_EQ(nvml_->num_event_sets, 1);
    EXPECT_EQ(nvml_->num_inits - nvml_->num_shutdowns, 1);
  }
  EXPECT_EQ(nvml_->num_event_sets, 0);
  EXPECT_EQ(nvml_->num_inits, nvml_->num_shutdowns);
}

}  // namespace
}  // namespace ampd::device
