// Compiles the loops of a step for AVX-512 (F, BW, DQ, VL). CMakeLists.txt sets the compiler flags.
#define AMPD_KERNELS kAvx512Kernels
#define AMPD_KERNELS_NAME "avx512"
#define AMPD_REGISTER_BYTES 64
#include "worker/kernels/cpu/step_loops.inc"
