#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker.pb.h"
#include "worker/amp/engine.h"
#include "worker/device/energy_meter.h"
#include "worker/device/gpu_watch.h"

namespace ampd::train {

// What an attempt's device does while the attempt runs, by the device's own counters: its energy, and for a GPU what
// NVML reports. A device without counters has no numbers. Single-threaded; owner: the attempt's loop.
class DeviceWatch {
 public:
  // Begins to watch. `placed`: the device as the agent knows it.
  void Begin(const amp::ComputeDevice& device, const v1::Device& placed);

  // Reads the counters. Call it after every step; it reads at most every few seconds, because a step may take less time
  // than the counters take to read. Energy counters have to be read before they wrap around.
  void Update();

  // The newest readings; nothing if they are not measured. The power is the mean since the reading before.
  std::optional<double> power_watts() const { return power_watts_; }
  std::optional<double> utilization() const { return gpu_ == nullptr ? std::nullopt : gpu_->newest().utilization; }

  // Sets `energy_joules` and `gpu_use`. `graph_bytes`: the memory that the recorded step keeps.
  void AddTo(const amp::ComputeDevice& device, int64_t graph_bytes, v1::FinalMetrics* metrics) const;

 private:
  std::optional<device::EnergyMeter> meter_;
  std::unique_ptr<device::GpuWatch> gpu_;  // Null: the device is no GPU, or NVML is missing.
  std::optional<double> joules_;           // At the last update.
  std::optional<double> power_watts_;
  absl::Duration updated_;  // Since boot.
};

}  // namespace ampd::train
