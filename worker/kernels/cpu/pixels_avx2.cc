// Compiles the loop over pixels for AVX2. CMakeLists.txt sets the compiler flags.
#define AMPD_MAP_PIXELS MapPixelsAvx2
#include "worker/kernels/cpu/pixels.inc"
