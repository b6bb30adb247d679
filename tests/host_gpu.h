#pragma once

#include <algorithm>

#include "worker/device/devices.h"

namespace ampd {

// The message with which tests that need a GPU are skipped.
inline constexpr char kNeedsGpu[] = "needs a GPU: NVML shows none here";

// Returns whether NVML shows a GPU. Does not call CUDA, because the first CUDA call determines which GPUs the process
// sees.
inline bool HostHasGpu() {
  absl::StatusOr<device::Devices> devices = device::Devices::Discover({});
  const std::vector<v1::Device> all = devices.ok() ? devices->Current() : std::vector<v1::Device>();
  return std::any_of(all.begin(), all.end(),
                     [](const v1::Device& one) { return one.kind() == v1::Device::GPU && !one.unhealthy(); });
}

}  // namespace ampd
