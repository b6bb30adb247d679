#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"
#include "worker/train/device/compute_device.h"
#include "worker/train/loop/run_attempt.h"

namespace ampd::train {

// Returns this host's first GPU, or the error of opening it. The first call opens the GPU, because a process uses one
// device for its lifetime.
inline const absl::StatusOr<amp::ComputeDevice>& Gpu() {
  static const auto* gpu = new absl::StatusOr<amp::ComputeDevice>(WarmUp("gpu0"));
  return *gpu;
}

// Describes a GPU, or a CPU if `gpu` is false, as the server describes an attempt's device to the trainer.
inline v1::Device Described(bool gpu) {
  v1::Device device;
  device.set_kind(gpu ? v1::Device::GPU : v1::Device::CPU);
  device.add_instruction_sets("avx512_bf16");
  device.set_capability_major(gpu ? 9 : 0);
  return device;
}

}  // namespace ampd::train
