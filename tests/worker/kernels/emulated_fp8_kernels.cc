// The source of the CUDA kernels for FP8, compiled as C++ over the emulated CUDA.
#include "worker/kernels/cuda/fp8_kernels.cu"
