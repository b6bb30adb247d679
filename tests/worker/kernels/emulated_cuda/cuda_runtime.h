#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

// As much of CUDA as worker/kernels/cuda and its test use, on the host, so that the kernels' own source is compiled as
// C++ and run where no GPU is. A block's threads are threads of the host, blocks run one after the other, and device
// memory is the heap.
//
// It shows what a kernel computes: indices, tails, formats, reductions, the order of operations. It does not show
// races between warps, memory ordering, or what nvcc makes of it; those need a GPU (scripts/gpu-check).

#define CUDART_VERSION 13000
// NOLINTBEGIN(bugprone-reserved-identifier): these are CUDA's own names.
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
// NOLINTEND(bugprone-reserved-identifier)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int64_t min(int64_t a, int64_t b) { return std::min(a, b); }
inline uint32_t max(uint32_t a, uint32_t b) { return std::max(a, b); }
inline uint32_t atomicMax(uint32_t* cell, uint32_t value) {
  const std::atomic_ref<uint32_t> atomic(*cell);
  uint32_t old = atomic.load();
  while (old < value && !atomic.compare_exchange_weak(old, value)) {
  }
  return old;
}

inline thread_local dim3 threadIdx;
inline thread_local dim3 blockIdx;

namespace emulated_cuda {

inline std::barrier<>* block_barrier = nullptr;  // of the launch that runs
inline constexpr int kMaxThreads = 1024;
inline constexpr int kWarpSize = 32;

}  // namespace emulated_cuda

// NOLINTBEGIN(bugprone-reserved-identifier): these are CUDA's own names.
inline void __syncthreads() { emulated_cuda::block_barrier->arrive_and_wait(); }

// REQUIRES: every thread of the block calls it, as `mask` says of every thread of the warp. Two rooms by turns: nobody
// writes one before everybody has read it, for the other's barrier is between.
template <typename T>
T __shfl_down_sync(unsigned /*mask*/, T value, int offset) {
  static T exchanged[2][emulated_cuda::kMaxThreads];
  thread_local int turn = 0;
  turn = 1 - turn;
  exchanged[turn][threadIdx.x] = value;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % emulated_cuda::kWarpSize;
  return lane + offset < emulated_cuda::kWarpSize ? exchanged[turn][threadIdx.x + offset] : value;
}
// NOLINTEND(bugprone-reserved-identifier)

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100 };
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : error == cudaErrorMemoryAllocation ? "out of memory" : "no device";
}

using cudaStream_t = void*;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream = nullptr;
};

// Runs the whole grid before it returns.
template <typename... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Parameters... arguments) {
  std::barrier<> barrier(config->blockDim.x);
  emulated_cuda::block_barrier = &barrier;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < config->blockDim.x; ++thread) {
    threads.emplace_back([&, thread] {
      threadIdx.x = thread;
      for (unsigned block = 0; block < config->gridDim.x; ++block) {
        blockIdx.x = block;
        kernel(arguments...);
        barrier.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return cudaSuccess;
}

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int major, minor;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int) { return cudaErrorNoDevice; }

enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
inline cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
