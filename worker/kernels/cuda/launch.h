#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ampd::kernels {

// Threads in every block, unless a kernel chooses another number.
inline constexpr int kThreads = 256;

// Launches the kernel without allocating or waiting; does nothing if there are no blocks. Returns a cudaError_t.
template <typename... Parameters>
int LaunchBlocks(void (*kernel)(Parameters...), int64_t num_blocks, int num_threads, void* stream,
                 Parameters... arguments) {
  if (num_blocks == 0) {
    return cudaSuccess;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim.x = static_cast<unsigned>(num_blocks);
  config.blockDim.x = static_cast<unsigned>(num_threads);
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// LaunchBlocks with kThreads threads in every block.
template <typename... Parameters>
int Launch(void (*kernel)(Parameters...), int64_t num_blocks, void* stream, Parameters... arguments) {
  return LaunchBlocks(kernel, num_blocks, kThreads, stream, arguments...);
}

}  // namespace ampd::kernels
