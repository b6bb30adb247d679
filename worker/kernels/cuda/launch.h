#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ampd::kernels {

// Threads in every block.
inline constexpr int kThreads = 256;

// Launches the kernel without allocating or waiting; does nothing if there are no blocks. Returns a cudaError_t.
template <typename... Parameters>
int Launch(void (*kernel)(Parameters...), int64_t num_blocks, void* stream, Parameters... arguments) {
  if (num_blocks == 0) {
    return cudaSuccess;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim.x = static_cast<unsigned>(num_blocks);
  config.blockDim.x = kThreads;
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace ampd::kernels
