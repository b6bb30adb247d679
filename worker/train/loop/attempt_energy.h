#pragma once

#include <optional>

#include "absl/time/time.h"
#include "ampd/v1/worker.pb.h"
#include "worker/amp/engine.h"
#include "worker/device/energy_meter.h"

namespace ampd::train {

// The energy that an attempt's device uses. Measures nothing on a device whose energy can't be measured.
// Single-threaded; owner: the attempt's loop.
class AttemptEnergy {
 public:
  // Begins to measure. `placed`: the device as the agent knows it.
  void Begin(const amp::ComputeDevice& device, const v1::Device& placed);

  // Reads the counters, before they wrap around. Call it after every step; it reads at most every few seconds, because
  // a step may take less time than the files of the counters take to read.
  void Update();

  // The energy since Begin, in joules; nothing if it is not measured.
  std::optional<double> Joules() const;

 private:
  std::optional<device::EnergyMeter> meter_;
  absl::Duration updated_;  // Since boot.
};

}  // namespace ampd::train
