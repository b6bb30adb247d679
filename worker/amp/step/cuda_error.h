#pragma once

#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::amp {

// Does nothing if `error`, the return value of a kernel, is 0. Otherwise throws what LibTorch's own kernels would
// throw: c10::OutOfMemoryError or c10::AcceleratorError.
void CheckCuda(const kernels::CudaKernels& kernels, int error);

}  // namespace ampd::amp
