#pragma once

#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::amp {

// Throws what LibTorch's own kernels would throw, c10::OutOfMemoryError or c10::AcceleratorError, unless `error`, the
// return value of a kernel, is 0.
void CheckCuda(const kernels::CudaKernels& kernels, int error);

}  // namespace ampd::amp
