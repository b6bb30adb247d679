#pragma once

#include <string>

#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::kernels {

// The kernels that cuda_kernels_test.cc holds against the CPU's; null when they can't run here, with the reason.
const CudaKernels* KernelsUnderTest(std::string* why);

}  // namespace ampd::kernels
