// A fake libampd_cuda.so whose table of kernels has a wrong version, so the trainer must refuse it. A copy of this
// library takes the place of libraries that the trainer must not even open.
#include "worker/kernels/cuda/cuda_kernels.h"

extern "C" const ampd::kernels::CudaKernels* ampd_cuda_kernels() {
  static constexpr ampd::kernels::CudaKernels kTable = {.version = ampd::kernels::kCudaKernelsVersion + 1};
  return &kTable;
}
