// The source of the CUDA kernels for losses, compiled as C++ over the emulated CUDA.
#include "worker/kernels/cuda/loss_kernels.cu"
