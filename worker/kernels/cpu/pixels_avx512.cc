// The loop for AVX-512; CMakeLists.txt sets the flags.
#define AMPD_MAP_PIXELS MapPixelsAvx512
#include "worker/kernels/cpu/pixels.inc"
