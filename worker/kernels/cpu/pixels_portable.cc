// The loop for the baseline of x86-64; CMakeLists.txt sets the flags.
#define AMPD_MAP_PIXELS MapPixelsPortable
#include "worker/kernels/cpu/pixels.inc"
