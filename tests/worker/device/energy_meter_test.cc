#include "worker/device/energy_meter.h"

#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "gtest/gtest.h"
#include "tests/worker/device/fake_nvml.h"

namespace ampd::device {
namespace {

// A folder with files like those of Linux's CPU energy counters. The test sets the counters' values.
class FakeCounters : public testing::Test {
 protected:
  FakeCounters() {
    std::string name = testing::TempDir() + "powercap-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FakeCounters() override { std::filesystem::remove_all(folder_); }

  void Set(const std::string& domain, const std::string& name, int64_t microjoules) {
    std::filesystem::create_directories(absl::StrCat(folder_, "/", domain));
    Write(domain, "name", name + "\n");
    Write(domain, "max_energy_range_uj", "10000000\n");
    Write(domain, "energy_uj", absl::StrCat(microjoules, "\n"));
  }
  void Write(const std::string& domain, const std::string& file, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", domain, "/", file), text).ok());
  }

  std::string folder_;
};

TEST_F(FakeCounters, Packages_AreAddedUpAndPartsOfThemAreNot) {
  const auto set = [this](int64_t microjoules) {
    Set("intel-rapl:0", "package-0", 1'000'000 + microjoules);
    Set("intel-rapl:1", "package-1", 2'000'000 + 2 * microjoules);
    Set("intel-rapl:0:0", "core", 5 * microjoules);
    Set("intel-rapl:2", "psys", 7 * microjoules);
    Set("intel-rapl-mmio:0", "package-0", 11 * microjoules);
  };
  set(0);
  auto meter = EnergyMeter::OpenCpus(folder_);
  ASSERT_TRUE(meter.ok()) << meter.status();
  EXPECT_EQ(meter->joules(), 0);
  set(1'500'000);
  EXPECT_EQ(meter->joules(), 0) << "only Update() reads the counters";
  meter->Update();
  EXPECT_DOUBLE_EQ(meter->joules().value(), 4.5);
  meter->Update();
  EXPECT_DOUBLE_EQ(meter->joules().value(), 4.5) << "the same energy is not added twice";
}

TEST_F(FakeCounters, ACounterThatStartsOver_LosesNoEnergy) {
  Set("intel-rapl:0", "package-0", 9'000'000);
  auto meter = EnergyMeter::OpenCpus(folder_);
  ASSERT_TRUE(meter.ok());
  Set("intel-rapl:0", "package-0", 2'000'000);
  meter->Update();
  EXPECT_DOUBLE_EQ(meter->joules().value(), 3);
}

TEST_F(FakeCounters, ACounterThatCannotBeReadAnyMore_MakesTheSumUnknownForGood) {
  Set("intel-rapl:0", "package-0", 0);
  auto meter = EnergyMeter::OpenCpus(folder_);
  ASSERT_TRUE(meter.ok());
  Write("intel-rapl:0", "energy_uj", "none\n");
  meter->Update();
  EXPECT_EQ(meter->joules(), std::nullopt);
  Set("intel-rapl:0", "package-0", 1'000'000);
  meter->Update();
  EXPECT_EQ(meter->joules(), std::nullopt) << "energy is missing from the sum";
}

TEST_F(FakeCounters, AHostWithoutCounters_IsNotMeasured) {
  EXPECT_TRUE(absl::IsNotFound(EnergyMeter::OpenCpus(folder_).status()));
  EXPECT_TRUE(absl::IsNotFound(EnergyMeter::OpenCpus(folder_ + "/missing").status()));
  Set("intel-rapl:0", "package-0", 0);
  Write("intel-rapl:0", "energy_uj", "-1\n");
  EXPECT_FALSE(EnergyMeter::OpenCpus(folder_).ok());
}

// Tests on a host with a fake NVML that has two GPUs.
class FakeGpus : public testing::Test {
 protected:
  FakeGpus() : library_(dlopen(kNvml, RTLD_NOW | RTLD_LOCAL)) {
    state_ = static_cast<FakeNvml*>(dlsym(library_, "fake_nvml"));
    *state_ = FakeNvml();
    state_->millijoules = 5'000'000'000;
  }
  ~FakeGpus() override { dlclose(library_); }

  static constexpr char kNvml[] = AMPD_TEST_LIBRARIES "/libfake_nvml.so";
  static constexpr char kSecondGpu[] = "GPU-00000000-0000-0000-0000-000000000001";
  void* library_;
  FakeNvml* state_;
};

TEST_F(FakeGpus, TheEnergySinceTheStartIsCounted) {
  {
    auto meter = EnergyMeter::OpenGpu(kSecondGpu, kNvml);
    ASSERT_TRUE(meter.ok()) << meter.status();
    state_->millijoules += 2500;
    meter->Update();
    EXPECT_DOUBLE_EQ(meter->joules().value(), 2.5);
    EnergyMeter copy = *meter;
    state_->millijoules += 500;
    copy.Update();
    EXPECT_DOUBLE_EQ(copy.joules().value(), 3);
    EXPECT_DOUBLE_EQ(meter->joules().value(), 2.5) << "a copy does not change the meter";
  }
  EXPECT_EQ(state_->num_inits, 1);
  EXPECT_EQ(state_->num_shutdowns, 1);
}

TEST_F(FakeGpus, ACounterThatFallsOrIsLost_MakesTheSumUnknown) {
  for (const bool falls : {true, false}) {
    auto meter = EnergyMeter::OpenGpu(kSecondGpu, kNvml);
    ASSERT_TRUE(meter.ok());
    if (falls) {
      state_->millijoules = 0;
    } else {
      state_->failing_gpu = 1;
      state_->failing_call = "nvmlDeviceGetTotalEnergyConsumption";
    }
    meter->Update();
    EXPECT_EQ(meter->joules(), std::nullopt);
  }
}

TEST_F(FakeGpus, WithoutNvmlOrTheGpu_NothingIsMeasured) {
  EXPECT_TRUE(absl::IsNotFound(EnergyMeter::OpenGpu(kSecondGpu, "/nowhere/libnvidia-ml.so").status()));
  EXPECT_TRUE(absl::IsNotFound(EnergyMeter::OpenGpu("GPU-00000000-0000-0000-0000-000000000007", kNvml).status()));
  state_->failing_call = "nvmlInit_v2";
  EXPECT_TRUE(absl::IsNotFound(EnergyMeter::OpenGpu(kSecondGpu, kNvml).status()));
}

}  // namespace
}  // namespace ampd::device
