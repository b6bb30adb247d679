// The kernels of libampd_cuda.so, as the trainer opens them.
#include <cstdlib>

#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/device/cuda_plugin.h"

namespace ampd::kernels {

const CudaKernels* KernelsUnderTest(std::string* why) {
  const char* plugin = std::getenv("AMPD_CUDA_PLUGIN");
  device::CudaLibraries libraries;
  libraries.plugin = plugin == nullptr ? std::string(AMPD_BIN_DIR) + "/libampd_cuda.so" : plugin;
  const auto kernels = device::OpenCudaKernels(libraries);
  *why = kernels.ok() ? "" : "needs a GPU: " + std::string(kernels.status().message());
  return kernels.ok() ? *kernels : nullptr;
}

}  // namespace ampd::kernels
