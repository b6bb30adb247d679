// Gives tests the CUDA kernels: loads libampd_cuda.so from the test's own folder, as the trainer does.
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

int64_t RunBackwards(const std::function<void()>& launch) {
  launch();
  return 0;
}

}  // namespace ampd::kernels
