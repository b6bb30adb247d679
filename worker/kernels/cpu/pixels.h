#pragma once

#include <cstdint>

#include "worker/kernels/cpu/step_kernels.h"

namespace ampd::kernels {

// Bytes of an image as numbers: out[i] = (in[i] / 255 - mean) / deviation in fp32, rounded after each operation, so
// that every instruction set gives the same bits. `in` and `out` have `count` elements and do not overlap. Runs on the
// calling thread.
using MapPixels = void (*)(const uint8_t* in, int64_t count, float mean, float deviation, float* out);

// The loop for an instruction set; null where the machine does not run it.
MapPixels PixelsFor(InstructionSet set);

// The loop of the widest set that the machine runs.
MapPixels BestPixels();

}  // namespace ampd::kernels
