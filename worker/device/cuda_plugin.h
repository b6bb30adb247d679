#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::device {

// Where the driver and our kernels are.
struct CudaLibraries {
  std::string driver = "libcuda.so.1";
  std::string plugin;  // a path; empty: libampd_cuda.so beside the running program
};

// The kernels of libampd_cuda.so, for use until the process ends: nothing is ever unloaded. The library is opened only
// where a CUDA driver with a device is, so that a host without one loads nothing. FAILED_PRECONDITION (reason
// DEVICE_ERROR) with one line that says what is missing: the driver, a device that it lets this process see, the
// library, or one of them in a version that fits the others.
absl::StatusOr<const kernels::CudaKernels*> OpenCudaKernels(const CudaLibraries& libraries = {});

// The path of a file in the running program's folder.
std::string BesideThisProgram(const std::string& name);

}  // namespace ampd::device
