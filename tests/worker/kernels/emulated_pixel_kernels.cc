// The source of the CUDA kernels for pixels, compiled as C++ over the emulated CUDA.
#include "worker/kernels/cuda/pixel_kernels.cu"
