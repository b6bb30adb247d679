#include "worker/train/loop/device_watch.h"

#include <utility>

#include "base/clock.h"
#include "worker/train/device/compute_device.h"

namespace ampd::train {

void DeviceWatch::Begin(const amp::ComputeDevice& device, const v1::Device& placed) {
  auto meter = device.device.is_cpu() ? device::EnergyMeter::OpenCpus() : device::EnergyMeter::OpenGpu(placed.uuid());
  if (meter.ok()) {
    meter_ = *std::move(meter);
    joules_ = meter_->joules();
  }
  if (!device.device.is_cpu()) {
    gpu_ = device::GpuWatch::Open(placed.id());
  }
  updated_ = SystemClock().SinceBoot();
}

void DeviceWatch::Update() {
  constexpr absl::Duration kInterval = absl::Seconds(5);
  const absl::Duration passed = SystemClock().SinceBoot() - updated_;
  if (passed < kInterval) {
    return;
  }
  updated_ += passed;
  if (gpu_ != nullptr) {
    gpu_->Update();
    power_watts_ = gpu_->newest().power_watts;
  }
  if (meter_.has_value()) {
    meter_->Update();
    const std::optional<double> before = std::exchange(joules_, meter_->joules());
    power_watts_ = before.has_value() && joules_.has_value()
                       ? std::optional((*joules_ - *before) / absl::ToDoubleSeconds(passed))
                       : std::nullopt;
  }
}

void DeviceWatch::AddTo(const amp::ComputeDevice& device, int64_t graph_bytes, v1::FinalMetrics* metrics) const {
  if (std::optional<device::EnergyMeter> meter = meter_; meter.has_value()) {
    meter->Update();
    if (meter->joules().has_value()) {
      metrics->set_energy_joules(*meter->joules());
    }
  }
  if (gpu_ != nullptr) {
    const DeviceMemory memory = GetMemory(device);
    v1::GpuUse& use = *metrics->mutable_gpu_use();
    use = gpu_->Use(memory.reserved_bytes);
    use.set_reserved_peak_bytes(memory.reserved_peak_bytes);
    use.set_graph_bytes(graph_bytes);
  }
}

}  // namespace ampd::train
