#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

// Implements on the host the part of CUDA that worker/kernels/cuda and its test use, so that the kernels' own source is
// compiled as C++ and runs without a GPU. The threads of a block are contexts (ucontext); one host thread runs them in
// turn, each until it waits for the others. Blocks run one after the other, and device memory is the heap. Only one
// launch may run at a time.
//
// The emulation tests what a kernel computes: indices, tails, formats, reductions, the order of operations. It cannot
// detect races between warps, memory ordering problems, or errors in nvcc's code; those need a GPU (scripts/gpu-check).

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
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int64_t min(int64_t a, int64_t b) { return std::min(a, b); }
inline int64_t max(int64_t a, int64_t b) { return std::max(a, b); }
inline uint32_t max(uint32_t a, uint32_t b) { return std::max(a, b); }
inline void __threadfence() {}  // NOLINT(bugprone-reserved-identifier): CUDA's own name.
inline unsigned atomicInc(unsigned* cell, unsigned limit) {
  const unsigned old = *cell;
  *cell = old >= limit ? 0 : old + 1;
  return old;
}
inline uint32_t atomicMax(uint32_t* cell, uint32_t value) {
  const uint32_t old = *cell;
  *cell = std::max(old, value);
  return old;
}

inline dim3 threadIdx;
inline dim3 blockIdx;

namespace emulated_cuda {

inline constexpr unsigned kMaxThreads = 1024;
inline constexpr unsigned kWarpSize = 32;
inline constexpr size_t kStackBytes = size_t{1} << 17;

inline int64_t num_launches = 0;            // Number of launches so far.
inline bool runs_last_block_first = false;  // Whether blocks run from the last to the first.
// The state of the current launch.
inline ucontext_t launcher;               // The context to which threads return when they wait or end.
inline std::vector<ucontext_t> contexts;  // The context of each thread.
inline unsigned num_ended = 0;            // Number of threads that have ended.

// Returns the stack of a thread. Stacks are allocated once and reused by all launches.
inline std::byte* StackOf(unsigned thread) {
  static auto* const stacks = new std::vector<std::unique_ptr<std::byte[]>>(kMaxThreads);
  std::unique_ptr<std::byte[]>& stack = (*stacks)[thread];
  if (stack == nullptr) {
    stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  }
  return stack.get();
}

// Runs body() once in each thread of a block, and returns when all threads have ended. A thread passes a barrier only
// after all threads have reached it. So all threads must call the same number of barriers. If a thread returns earlier
// than the others, the program aborts.
template <typename Body>
void RunThreads(unsigned num_threads, const Body& body) {
  static const Body* running = nullptr;
  running = &body;
  num_ended = 0;
  contexts.resize(num_threads);
  for (unsigned thread = 0; thread < num_threads; ++thread) {
    ucontext_t& context = contexts[thread];
    getcontext(&context);
    context.uc_stack.ss_sp = StackOf(thread);
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = &launcher;
    makecontext(
        &context,
        [] {
          (*running)();
          ++num_ended;
        },
        0);
  }
  while (num_ended == 0) {
    for (threadIdx.x = 0; threadIdx.x < num_threads; ++threadIdx.x) {
      swapcontext(&launcher, &contexts[threadIdx.x]);
    }
  }
  if (num_ended != num_threads) {
    std::abort();  // Not every thread of the block reached the barrier.
  }
}

}  // namespace emulated_cuda

// NOLINTBEGIN(bugprone-reserved-identifier): these are CUDA's own names.
inline void __syncthreads() { swapcontext(&emulated_cuda::contexts[threadIdx.x], &emulated_cuda::launcher); }

// Emulates CUDA's exchange of values between the threads of a warp. REQUIRES: every thread of the block calls it, not
// just every thread of the warp, because it waits at the block's barrier. Calls alternate between two buffers, so that
// no call overwrites a buffer that other threads still read: all threads pass a barrier between two uses of a buffer.
template <typename T>
T __shfl_down_sync(unsigned /*mask*/, T value, int offset) {
  static T exchanged[2][emulated_cuda::kMaxThreads];
  static int turns[emulated_cuda::kMaxThreads];
  const int turn = turns[threadIdx.x] = 1 - turns[threadIdx.x];
  exchanged[turn][threadIdx.x] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % emulated_cuda::kWarpSize;
  return lane + offset < emulated_cuda::kWarpSize ? exchanged[turn][threadIdx.x + offset] : value;
}
// NOLINTEND(bugprone-reserved-identifier)

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100 };
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : error == cudaErrorMemoryAllocation ? "out of memory" : "no device";
}

using cudaStream_t = void*;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream = nullptr;
};

// Runs all blocks of the grid before it returns.
template <typename... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Parameters... arguments) {
  const unsigned num_blocks = config->gridDim.x;
  ++emulated_cuda::num_launches;
  emulated_cuda::RunThreads(config->blockDim.x, [&] {
    for (unsigned block = 0; block < num_blocks; ++block) {
      blockIdx.x = emulated_cuda::runs_last_block_first ? num_blocks - 1 - block : block;
      kernel(arguments...);
      __syncthreads();
    }
  });
  return cudaSuccess;
}

// All work is done when a launch returns, so every event has happened once it is recorded.
using cudaEvent_t = bool*;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new bool(false);
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *event = true;
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) { return *event ? cudaSuccess : cudaErrorNoDevice; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
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
  if (bytes != 0) {
    std::memcpy(to, from, bytes);  // memcpy must not get null addresses, which cudaMemcpy accepts.
  }
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
