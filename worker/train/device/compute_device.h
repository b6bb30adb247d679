#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/device/cuda_plugin.h"

namespace ampd::train {

// Opens the device that --device names, for the lifetime of the process: "cpu", or "gpu<n>" in NVML's numbering. For a
// GPU, makes only that GPU visible to the process (as cuda:0), starts the driver, loads our kernels and LibTorch's CUDA
// part, and selects deterministic algorithms. Also loads the library that records steps in CUDA graphs, if possible.
// Call once, before any call of LibTorch, because LibTorch's first call decides for good whether there is CUDA.
// FAILED_PRECONDITION (reason DEVICE_ERROR) with one line that says what is missing.
absl::StatusOr<amp::ComputeDevice> OpenComputeDevice(const std::string& id,
                                                     const device::CudaLibraries& libraries = {});

// Sets, for the whole process, whether LibTorch may only use deterministic algorithms. If `deterministic` is false,
// LibTorch may use any algorithm, and cuDNN measures which of its algorithms are the fastest. Deterministic algorithms
// are always used on a CPU.
void UseAlgorithms(const amp::ComputeDevice& opened, bool deterministic);

// Checks that the opened device is the one that an attempt was placed on. FAILED_PRECONDITION (reason DEVICE_ERROR) if
// the kinds or, for GPUs, the UUIDs differ.
absl::Status CheckPlacedHere(const v1::Device& placed, const amp::ComputeDevice& opened);

// The name of the device's model, without anything that identifies the host: "cpu", "NVIDIA H200".
std::string NameOf(const amp::ComputeDevice& opened);

// Memory of the device. `allocated_bytes` and `peak_bytes` count bytes of tensors: the current amount, and the most
// since ResetPeakMemory. The other three are 0 on a CPU. A GPU's allocator also keeps freed memory and the memory of
// a recorded step: `reserved_bytes` and `reserved_peak_bytes` are all the memory that it holds, now and at most.
// `num_retries` counts, since the start of the process, how often the allocator got no memory at first, freed what it
// kept, and tried again.
struct DeviceMemory {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t reserved_peak_bytes = 0;
  int64_t num_retries = 0;
};
DeviceMemory GetMemory(const amp::ComputeDevice& opened);
void ResetPeakMemory(const amp::ComputeDevice& opened);

}  // namespace ampd::train
