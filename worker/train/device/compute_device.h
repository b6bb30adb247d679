#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/device/cuda_plugin.h"

namespace ampd::train {

// Opens the device that --device named, for the whole life of the process: "cpu", or "gpu<n>" in NVML's numbering. For
// a GPU the process is shown that one alone (as cuda:0), the driver is started, our kernels and LibTorch's CUDA part
// are loaded, and deterministic cuBLAS and cuDNN are chosen. Step graphs are loaded where they can be. Call once,
// before any call of LibTorch: its first call decides for good whether there is CUDA. FAILED_PRECONDITION (reason
// DEVICE_ERROR) with one line that says what is missing.
absl::StatusOr<amp::ComputeDevice> OpenComputeDevice(const std::string& id,
                                                     const device::CudaLibraries& libraries = {});

// Whether the opened device is the one that an attempt was placed on: FAILED_PRECONDITION (reason DEVICE_ERROR) when
// the kinds differ, or the UUIDs of two GPUs.
absl::Status CheckPlacedHere(const v1::Device& placed, const amp::ComputeDevice& opened);

// The device under a name that stays the same between hosts of one kind: "cpu", "NVIDIA H200".
std::string NameOf(const amp::ComputeDevice& opened);

// Bytes of tensors on the device: allocated now, and the most since ResetPeakMemory.
struct DeviceMemory {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;
};
DeviceMemory GetMemory(const amp::ComputeDevice& opened);
void ResetPeakMemory(const amp::ComputeDevice& opened);

}  // namespace ampd::train
