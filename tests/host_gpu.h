#pragma once

#include <algorithm>

#include "worker/device/devices.h"

namespace ampd {

// The reason for which a test that needs a GPU is skipped.
inline constexpr char kNeedsGpu[] = "needs a GPU: NVML shows none here";

// Returns whether NVML shows a GPU. Does not call CUDA, because its first call fixes which GPUs the process sees.
inline bool HostHasGpu() {
  absl::StatusOr<device::Devices> devices = device::Devices::Discover({});
  const std::vector<v1::Device> all = devices.ok() ? devices->Current() : std::vector<v1::Device>();
  return std::any_of(all.begin(), all.end(),
                     [](const v1::Device& one) { return one.kind() == v1::Device::GPU && !one.unhealthy(); });
}

}  // namespace ampd
