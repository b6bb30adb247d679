// Compiles the loops of a step for AVX2. CMakeLists.txt sets the compiler flags.
#define AMPD_KERNELS kAvx2Kernels
#define AMPD_KERNELS_NAME "avx2"
#define AMPD_REGISTER_BYTES 32
#include "worker/kernels/cpu/step_loops.inc"
