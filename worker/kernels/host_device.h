#pragma once

// Marks functions that both the loops of cpu/ and the kernels of cuda/ share, so that both give the same bits. On a CPU
// such functions are always inlined, because the loops are compiled for several instruction sets. If each set had its
// own copy of a function, the linker would keep only one copy, and this machine might be unable to run it.
#ifdef __CUDACC__
#define AMPD_HOST_DEVICE __host__ __device__
#else
#define AMPD_HOST_DEVICE [[gnu::always_inline]]
#endif
