#include "worker/device/device_reader.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "tests/worker/device/fake_nvml.h"

namespace ampd::device {
namespace {

constexpr absl::Duration kNow = absl::Seconds(1000);

// A call of the driver that does not return until the test lets it go on.
struct Hang {
  absl::Notification begins;
  absl::Notification may_end;
  absl::Notification is_shut_down;
};
std::atomic<Hang*> hang = nullptr;  // Null: calls return at once.

void OnMemory(unsigned gpu) {
  if (Hang* const now = hang; now != nullptr && gpu == 1 && !now->begins.HasBeenNotified()) {
    now->begins.Notify();
    now->may_end.WaitForNotification();
  }
}

void OnShutdown() {
  if (Hang* const now = hang; now != nullptr) {
    now->is_shut_down.Notify();
  }
}

// Tests on a host with two GPUs and a fake NVML, which the test controls through `nvml_`.
class DeviceReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(nvml_, nullptr) << path_;
    *nvml_ = FakeNvml();
    nvml_->on_memory = OnMemory;
    nvml_->on_shutdown = OnShutdown;
  }
  void TearDown() override { hang = nullptr; }

  Devices Discover() const {
    Devices::Options options;
    options.nvml_library = path_;
    return Devices::Discover(options).value();
  }

  // Returns the devices as a text such as "cpu gpu0 gpu1 unhealthy".
  static std::string Text(const std::vector<v1::Device>& devices) {
    return absl::StrJoin(devices, " ", [](std::string* text, const v1::Device& device) {
      absl::StrAppend(text, device.id(), device.unhealthy() ? " unhealthy" : "");
    });
  }

  const std::string path_ = std::string(AMPD_TEST_LIBRARIES) + "/libfake_nvml.so";
  const std::unique_ptr<void, int (*)(void*)> library_{dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL), &dlclose};
  FakeNvml* const nvml_ = library_ == nullptr ? nullptr : static_cast<FakeNvml*>(dlsym(library_.get(), "fake_nvml"));
};

TEST_F(DeviceReaderTest, Readings_AreThoseOfTheDevices) {
  nvml_->used_bytes = 5ll << 30;
  DeviceReader reader(Discover(), {.wait = absl::Minutes(1)});
  reader.Start();
  const std::vector<v1::Device> devices = reader.Current(kNow);
  EXPECT_EQ(Text(devices), "cpu gpu0 gpu1");
  EXPECT_GT(devices[0].memory_free_bytes(), 0);
  EXPECT_EQ(devices[1].memory_free_bytes(), 59ll << 30);
  nvml_->used_bytes = 6ll << 30;
  EXPECT_EQ(reader.Current(kNow)[1].memory_free_bytes(), 58ll << 30);
  EXPECT_TRUE(reader.Stop());
}

TEST_F(DeviceReaderTest, GpuThatDoesNotAnswer_IsUnhealthyAfterTheLimitUntilItAnswers) {
  Hang hanging;
  DeviceReader reader(Discover(), {.wait = absl::Milliseconds(1), .answer_limit = absl::Seconds(5)});
  reader.Start();
  hang = &hanging;
  reader.Current(kNow);
  hanging.begins.WaitForNotification();
  EXPECT_EQ(Text(reader.Current(kNow)), "cpu gpu0 gpu1");
  EXPECT_EQ(Text(reader.Current(kNow + absl::Milliseconds(4999))), "cpu gpu0 gpu1");
  const std::vector<v1::Device> silent = reader.Current(kNow + absl::Seconds(5));
  EXPECT_EQ(Text(silent), "cpu gpu0 gpu1 unhealthy");
  EXPECT_EQ(silent[2].unhealthy_reason(), "its state cannot be read: the call of the driver does not return");
  EXPECT_EQ(silent[2].memory_free_bytes(), 0);
  EXPECT_EQ(silent[1].memory_total_bytes(), 64ll << 30) << "the others keep their readings";
  hanging.may_end.Notify();
  while (Text(reader.Current(kNow + absl::Seconds(5))) != "cpu gpu0 gpu1") {
  }
}

TEST_F(DeviceReaderTest, ReaderWhoseGpuHangs_StopsWithoutItsThreadAndKeepsNvmlLoaded) {
  Hang hanging;
  {
    DeviceReader reader(Discover(), {.stop_limit = absl::Milliseconds(1)});
    reader.Start();
    hang = &hanging;
    reader.Current(kNow);
    hanging.begins.WaitForNotification();
    EXPECT_FALSE(reader.Stop());
    EXPECT_FALSE(reader.Stop());
  }
  EXPECT_EQ(nvml_->num_shutdowns, 0);
  hanging.may_end.Notify();
  hanging.is_shut_down.WaitForNotification();  // The thread ends NVML when its call has returned.
  EXPECT_EQ(nvml_->num_shutdowns, 1);
}

}  // namespace
}  // namespace ampd::device
