#pragma once

// Marks functions that both the loops of cpu/ and the kernels of cuda/ use: one source, so that both give the same
// bits. On a CPU they are always inlined: the loops are compiled for several instruction sets, and if a function had a
// copy for each set, the linker would keep one copy for all, perhaps one that this machine cannot run.
#ifdef __CUDACC__
#define AMPD_HOST_DEVICE __host__ __device__
#else
#define AMPD_HOST_DEVICE [[gnu::always_inline]]
#endif
