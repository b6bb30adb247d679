// The loop for AVX2; CMakeLists.txt sets the flags.
#define AMPD_MAP_PIXELS MapPixelsAvx2
#include "worker/kernels/cpu/pixels.inc"
