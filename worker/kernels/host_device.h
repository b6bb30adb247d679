#pragma once

// Marks what the loops of cpu/ and the kernels of cuda/ are both made of: one source, so that both give the same bits.
#ifdef __CUDACC__
#define AMPD_HOST_DEVICE __host__ __device__
#else
#define AMPD_HOST_DEVICE
#endif
