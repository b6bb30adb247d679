#pragma once

#include <string>

#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::kernels {

// Returns the kernels that cuda_kernels_test.cc compares with the CPU's. Returns null, and the reason in `why`, if they
// cannot run on this machine.
const CudaKernels* KernelsUnderTest(std::string* why);

}  // namespace ampd::kernels
