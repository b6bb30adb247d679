#pragma once

#include <string>

#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::kernels {

// The kernels that cuda_kernels_test.cc compares with the CPU's; null if they cannot run here, and `why` gets the
// reason.
const CudaKernels* KernelsUnderTest(std::string* why);

}  // namespace ampd::kernels
