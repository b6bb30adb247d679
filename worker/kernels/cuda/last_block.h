#pragma once

#include <cuda_runtime.h>

namespace ampd::kernels {

// Lets the blocks of a launch store partial results, and lets the block that ends last combine them. So no second
// launch is needed. Which block ends last differs from launch to launch, so the last block must combine the partial
// results in an order that does not depend on which block it is.
//
// All threads of a block must call this function, after the block has stored its partial results. `num_ended` is in
// device memory, and is 0 before and after the launch; `num_blocks` blocks call the function with it. Returns true only
// in the threads of the last of these blocks, which can then read the partial results of all of them.
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
