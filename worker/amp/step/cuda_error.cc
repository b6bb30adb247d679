#include "worker/amp/step/cuda_error.h"

#include <string>

#include "c10/util/Exception.h"

namespace ampd::amp {
namespace {

constexpr int kCudaErrorMemoryAllocation = 2;

}  // namespace

void CheckCuda(const kernels::CudaKernels& kernels, int error) {
  if (error == kCudaErrorMemoryAllocation) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory in one of our kernels");
  }
  if (error != 0) {
    throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error,
                                std::string("one of our kernels failed: ") + kernels.error_text(error));
  }
}

}  // namespace ampd::amp
