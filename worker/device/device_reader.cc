#include "worker/device/device_reader.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/timed_wait.h"

namespace ampd::device {
namespace {

void MarkSilent(v1::Device* device) {
  device->set_unhealthy(true);
  device->set_unhealthy_reason("its state cannot be read: the call of the driver does not return");
  device->set_memory_total_bytes(0);
  device->set_memory_free_bytes(0);
}

}  // namespace

// What the object and its thread share.
struct DeviceReader::Shared {
  explicit Shared(Devices found) : devices(std::move(found)) {}

  // Reads all devices each time that is_reading is set.
  void Run();
  // Waits until a device is to be read, and returns its position; nullopt once the object is closed.
  std::optional<size_t> AwaitNext();
  void Publish(v1::Device device);
  bool IsReadingOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return is_reading || is_closed; }
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return !is_reading; }

  Devices devices;  // Used by the thread only, once it runs.

  absl::Mutex mutex;
  std::vector<v1::Device> readings ABSL_GUARDED_BY(mutex);
  bool is_reading ABSL_GUARDED_BY(mutex) = false;  // Set by Current, cleared by the thread when all devices are read.
  size_t next ABSL_GUARDED_BY(mutex) = 0;          // Position of the device that is being read, or is read next.
  uint64_t num_read ABSL_GUARDED_BY(mutex) = 0;    // How many readings the thread has made.
  bool is_closed ABSL_GUARDED_BY(mutex) = false;
  bool has_ended ABSL_GUARDED_BY(mutex) = false;
};

void DeviceReader::Shared::Run() {
  while (const std::optional<size_t> position = AwaitNext()) {
    Publish(devices.Read(*position));
  }
  absl::MutexLock lock(&mutex);
  has_ended = true;
}

std::optional<size_t> DeviceReader::Shared::AwaitNext() {
  absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(this, &Shared::IsReadingOrClosed));
  return is_closed ? std::nullopt : std::optional(next);
}

void DeviceReader::Shared::Publish(v1::Device device) {
  absl::MutexLock lock(&mutex);
  readings[next] = std::move(device);
  next = (next + 1) % readings.size();
  is_reading = next != 0;
  ++num_read;
}

DeviceReader::DeviceReader(Devices devices, Options options)
    : options_(options), shared_(std::make_shared<Shared>(std::move(devices))) {}

void DeviceReader::Start() {
  std::vector<v1::Device> readings = shared_->devices.Current();
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->readings = std::move(readings);
  }
  thread_ = std::thread([shared = shared_] { shared->Run(); });
}

bool DeviceReader::Stop() {
  bool has_ended = true;
  {
    absl::MutexLock lock(&shared_->mutex);
    shared_->is_closed = true;
    if (thread_.joinable()) {
      AwaitFor(shared_->mutex, absl::Condition(&shared_->has_ended), options_.stop_limit);
      has_ended = shared_->has_ended;
    }
  }
  if (thread_.joinable() && has_ended) {
    thread_.join();
  } else if (thread_.joinable()) {
    thread_.detach();
    hangs_ = true;
  }
  return !hangs_;
}

std::vector<v1::Device> DeviceReader::Current(absl::Duration now) {
  absl::MutexLock lock(&shared_->mutex);
  const bool was_reading = std::exchange(shared_->is_reading, true);
  AwaitFor(shared_->mutex, absl::Condition(shared_.get(), &Shared::IsIdle), options_.wait);
  if (!was_reading || seen_num_read_ != shared_->num_read) {
    seen_num_read_ = shared_->num_read;
    seen_since_ = now;
  }
  std::vector<v1::Device> current = shared_->readings;
  if (shared_->is_reading && now - seen_since_ >= options_.answer_limit) {
    MarkSilent(&current[shared_->next]);
  }
  return current;
}

}  // namespace ampd::device
