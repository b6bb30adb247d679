// The source of the CUDA kernels, compiled as C++ over the emulated CUDA.
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/kernels/cuda/step_kernels.cu"

namespace ampd::kernels {

const CudaKernels* KernelsUnderTest(std::string* /*why*/) { return ampd_cuda_kernels(); }

int64_t RunBackwards(const std::function<void()>& launch) {
  const int64_t before = emulated_cuda::num_launches;
  emulated_cuda::runs_last_block_first = true;
  launch();
  emulated_cuda::runs_last_block_first = false;
  return emulated_cuda::num_launches - before;
}

}  // namespace ampd::kernels
