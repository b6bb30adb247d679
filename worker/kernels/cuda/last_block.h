#pragma once

#include <cuda_runtime.h>

namespace ampd::kernels {

// Lets the blocks of a launch store partial results, and lets the block that ends last combine them. So no second
// launch is needed. Which block that is differs from launch to launch; the order in which it combines the partial
// results must not.
//
// Every thread of the block must call this function, after it has stored its partial results. `num_ended` is in device
// memory, and is 0 before and after the launch; `num_blocks` blocks call the function with it. Returns true in the
// threads of one block: that for which the partial results of all these blocks are there.
__device__ inline bool IsLastBlock(unsigned* num_ended, unsigned num_blocks) {
  __shared__ bool is_last;
  __threadfence();  // The partial results of this thread are visible before its block is counted.
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicInc(num_ended, num_blocks - 1) == num_blocks - 1;  // The last one sets the count to 0.
  }
  __syncthreads();
  const bool result = is_last;
  if (result) {
    __threadfence();  // The reads that follow see the partial results of all blocks that were counted.
  }
  return result;
}

}  // namespace ampd::kernels
