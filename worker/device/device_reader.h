#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "worker/device/devices.h"

namespace ampd::device {

// Reads the state of devices on a thread of its own, because a call of NVML may hang if a GPU or its driver has a
// fault. A device is unhealthy while it has not answered for `answer_limit`; the other devices keep their last
// readings. When the call returns, the device has its new readings again. Only one thread calls the functions of this
// class.
class DeviceReader {
 public:
  struct Options {
    absl::Duration wait = absl::Milliseconds(50);         // how long Current waits for new readings
    absl::Duration answer_limit = absl::Seconds(5);       // how long reading a device may take
    absl::Duration stop_limit = absl::Milliseconds(500);  // how long Stop waits for the thread
  };
  explicit DeviceReader(Devices devices) : DeviceReader(std::move(devices), Options()) {}
  DeviceReader(Devices devices, Options options);
  ~DeviceReader() { Stop(); }
  DeviceReader(const DeviceReader&) = delete;
  DeviceReader& operator=(const DeviceReader&) = delete;

  // Reads all devices once, and starts the thread. Call once.
  void Start();
  // Ends the thread. Returns false if the thread hangs in a call of NVML: it then outlives this object, and keeps NVML
  // loaded. The process should then end by _Exit, which runs no code of NVML. Further calls return the same.
  bool Stop();

  // Makes the thread read all devices, unless it is still doing that, and waits a moment for the result. Returns the
  // newest readings. REQUIRES: between Start and Stop. `now`: the time since boot.
  std::vector<v1::Device> Current(absl::Duration now);

 private:
  struct Shared;

  const Options options_;
  const std::shared_ptr<Shared> shared_;  // The thread also owns it, so that it can outlive this object.
  std::thread thread_;
  bool hangs_ = false;  // The thread was left behind in a call of NVML.
  // The number of readings that the newest call of Current saw, and the time of the first call that saw this number.
  // The thread has no clock, so this shows for how long it has been reading one device.
  uint64_t seen_num_read_ = 0;
  absl::Duration seen_since_;
};

}  // namespace ampd::device
