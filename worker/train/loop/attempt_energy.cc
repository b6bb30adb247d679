#include "worker/train/loop/attempt_energy.h"

#include <utility>

#include "base/clock.h"

namespace ampd::train {

void AttemptEnergy::Begin(const amp::ComputeDevice& device, const v1::Device& placed) {
  auto meter = device.device.is_cpu() ? device::EnergyMeter::OpenCpus() : device::EnergyMeter::OpenGpu(placed.uuid());
  if (meter.ok()) {
    meter_ = *std::move(meter);
  }
}

void AttemptEnergy::Update() {
  constexpr absl::Duration kInterval = absl::Seconds(5);
  if (!meter_.has_value()) {
    return;
  }
  if (const absl::Duration now = SystemClock().SinceBoot(); now - updated_ >= kInterval) {
    meter_->Update();
    updated_ = now;
  }
}

std::optional<double> AttemptEnergy::Joules() const {
  std::optional<device::EnergyMeter> meter = meter_;
  if (!meter.has_value()) {
    return std::nullopt;
  }
  meter->Update();
  return meter->joules();
}

}  // namespace ampd::train
