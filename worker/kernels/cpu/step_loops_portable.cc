// Compiles the loops of a step for the baseline of x86-64. CMakeLists.txt sets the compiler flags.
#define AMPD_KERNELS kPortableKernels
#define AMPD_KERNELS_NAME "portable"
#define AMPD_REGISTER_BYTES 16
#include "worker/kernels/cpu/step_loops.inc"
