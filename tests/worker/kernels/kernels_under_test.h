#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::kernels {

// Returns the CUDA kernels that the test program tests: the emulated or the real ones. If they cannot run on this
// machine, returns null and sets `why` to the reason.
const CudaKernels* KernelsUnderTest(std::string* why);

// Runs `launch` with the blocks of every kernel launch from the last to the first, and returns the number of kernel
// launches. On a real GPU, the blocks run in the order that the GPU chooses, and the result is 0.
int64_t RunBackwards(const std::function<void()>& launch);

}  // namespace ampd::kernels
