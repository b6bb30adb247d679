// The source of the CUDA kernels for batch norms, compiled as C++ over the emulated CUDA.
#include "worker/kernels/cuda/batch_norm_kernels.cu"
