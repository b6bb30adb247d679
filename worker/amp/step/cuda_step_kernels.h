#pragma once

#include <memory>

#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// Runs the step's passes with the kernels of libampd_cuda.so: each pass writes its table to the device and launches one
// kernel; ComputeGradStats launches two, the second of which adds up the chunks. REQUIRES: `device.cuda_kernels` is
// set; every tensor is on `device.device`.
std::unique_ptr<StepKernels> MakeCudaStepKernels(const ComputeDevice& device);

}  // namespace ampd::amp
