#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::device {

// Paths of the CUDA driver and of ampd's CUDA kernels.
struct CudaLibraries {
  std::string driver = "libcuda.so.1";
  std::string plugin;  // path of libampd_cuda.so; empty: in the folder of the running program
};

// Loads libampd_cuda.so and returns its kernels, which stay valid until the process ends. Loads the library only on a
// host with a CUDA driver and a device. FAILED_PRECONDITION (reason DEVICE_ERROR) with one line that names what is
// missing: the driver, a device that this process may use, the library, or a matching version of one of them.
absl::StatusOr<const kernels::CudaKernels*> OpenCudaKernels(const CudaLibraries& libraries = {});

// The path of the file `name` in the folder of the running program.
std::string BesideThisProgram(const std::string& name);

}  // namespace ampd::device
