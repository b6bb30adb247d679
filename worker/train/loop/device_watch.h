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

// Measures what the device does while an attempt runs: its energy, and on a GPU also what NVML reports. Reads the
// device's own counters, so a device without counters has no measurements. Single-threaded; owner: the attempt's loop.
class DeviceWatch {
 public:
  // Starts to measure. `placed`: the description of the same device that the agent sent.
  void Begin(const amp::ComputeDevice& device, const v1::Device& placed);

  // Reads the counters if the last reading is at least five seconds old. Call it after every step: energy counters must
  // be read before they wrap around. It does not read at every call, because reading may take longer than a step.
  void Update();

  // The newest readings; nullopt if the device does not measure them. If the energy is measured, the power is the mean
  // between the last two readings.
  std::optional<double> power_watts() const { return power_watts_; }
  std::optional<double> utilization() const { return gpu_ == nullptr ? std::nullopt : gpu_->newest().utilization; }

  // Sets `energy_joules` and `gpu_use` in `metrics`. `graph_bytes`: the memory that a recorded CUDA graph of the step
  // keeps.
  void AddTo(const amp::ComputeDevice& device, int64_t graph_bytes, v1::FinalMetrics* metrics) const;

 private:
  std::optional<device::EnergyMeter> meter_;
  std::unique_ptr<device::GpuWatch> gpu_;  // Null if the device is no GPU, or if NVML is missing.
  std::optional<double> joules_;           // The energy at the last update.
  std::optional<double> power_watts_;
  absl::Duration updated_;  // Time of the last update, since boot.
};

}  // namespace ampd::train
