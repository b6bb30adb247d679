// The source of the CUDA kernels for column sums, compiled as C++ over the emulated CUDA.
#include "worker/kernels/cuda/column_sum_kernels.cu"
