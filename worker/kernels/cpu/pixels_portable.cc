// Compiles the loop over pixels for the baseline of x86-64. CMakeLists.txt sets the compiler flags.
#define AMPD_MAP_PIXELS MapPixelsPortable
#include "worker/kernels/cpu/pixels.inc"
