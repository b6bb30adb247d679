// Compiles the loop over pixels for AVX-512. CMakeLists.txt sets the compiler flags.
#define AMPD_MAP_PIXELS MapPixelsAvx512
#include "worker/kernels/cpu/pixels.inc"
