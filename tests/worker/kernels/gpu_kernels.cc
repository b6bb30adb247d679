// Provides the kernels of libampd_cuda.so in the test's folder, opened as the trainer opens them.
#include <gtest/gtest.h>

#include "tests/host_gpu.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/device/cuda_plugin.h"

namespace ampd::kernels {

const CudaKernels* KernelsUnderTest(std::string* why) {
  if (!HostHasGpu()) {
    *why = kNeedsGpu;
    return nullptr;
  }
  const auto kernels = device::OpenCudaKernels();
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  return kernels.ok() ? *kernels : nullptr;
}

}  // namespace ampd::kernels
