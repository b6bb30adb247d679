// The source of the CUDA kernels, compiled as C++ over the emulated CUDA.
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/kernels/cuda/step_kernels.cu"

namespace ampd::kernels {

const CudaKernels* KernelsUnderTest(std::string* /*why*/) { return ampd_cuda_kernels(); }

}  // namespace ampd::kernels
