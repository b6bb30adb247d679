#pragma once

#include <algorithm>

#include "worker/device/devices.h"

namespace ampd {

// Why a test that needs a GPU is skipped.
inline constexpr char kNeedsGpu[] = "needs a GPU: NVML shows none here";

// Whether NVML shows a GPU. Asks nothing of CUDA, whose first call fixes which GPUs a process sees.
inline bool HostHasGpu() {
  absl::StatusOr<device::Devices> devices = device::Devices::Discover({});
  const std::vector<v1::Device> all = devices.ok() ? devices->Current() : std::vector<v1::Device>();
  return std::any_of(all.begin(), all.end(),
                     [](const v1::Device& one) { return one.kind() == v1::Device::GPU && !one.unhealthy(); });
}

}  // namespace ampd
