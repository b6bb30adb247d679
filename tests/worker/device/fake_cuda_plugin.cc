// A fake libampd_cuda.so whose table of kernels has another version. Tests give it where the library must be refused,
// and a copy of it where the library must not even be opened.
#include "worker/kernels/cuda/cuda_kernels.h"

extern "C" const ampd::kernels::CudaKernels* ampd_cuda_kernels() {
  static constexpr ampd::kernels::CudaKernels kTable = {.version = ampd::kernels::kCudaKernelsVersion + 1};
  return &kTable;
}
