// A libampd_cuda.so of another version, and what else can stand in its place.
#include "worker/kernels/cuda/cuda_kernels.h"

extern "C" const ampd::kernels::CudaKernels* ampd_cuda_kernels() {
  static constexpr ampd::kernels::CudaKernels kTable = {.version = ampd::kernels::kCudaKernelsVersion + 1};
  return &kTable;
}
