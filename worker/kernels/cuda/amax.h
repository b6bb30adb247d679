#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/kernels/fp8_math.h"

// How kernels find the amax of a tensor, which is the largest magnitude among its numbers. A kernel takes the maximum
// of MagnitudeBits (fp8_math.h), so the result does not depend on the order of the threads. It is infinite or NaN if a
// number is. Only for the sources of libampd_cuda.so.
namespace ampd::kernels {

// The largest value among the threads of the block, returned to all of them. Every thread of the block must call this
// function, and only once in a launch.
__device__ inline uint32_t MaxOverBlock(uint32_t amax) {
  __shared__ uint32_t of_block;
  if (threadIdx.x == 0) {
    of_block = 0;
  }
  __syncthreads();
  atomicMax(&of_block, amax);
  __syncthreads();
  return of_block;
}

// Raises *amax to the magnitude `of_block`, which all threads of the block have. REQUIRES: *amax is in device memory,
// and not negative.
__device__ inline void RaiseAmax(float* amax, uint32_t of_block) {
  if (threadIdx.x == 0) {
    atomicMax(reinterpret_cast<uint32_t*>(amax), of_block);
  }
}

}  // namespace ampd::kernels
