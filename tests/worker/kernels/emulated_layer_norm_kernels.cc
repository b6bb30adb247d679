// The source of the CUDA kernels for layer norms, compiled as C++ over the emulated CUDA.
#include "worker/kernels/cuda/layer_norm_kernels.cu"
