// A libampd_cuda.so with another version of the table. Copies of it stand where the library must not be opened.
#include "worker/kernels/cuda/cuda_kernels.h"

extern "C" const ampd::kernels::CudaKernels* ampd_cuda_kernels() {
  static constexpr ampd::kernels::CudaKernels kTable = {.version = ampd::kernels::kCudaKernelsVersion + 1};
  return &kTable;
}
