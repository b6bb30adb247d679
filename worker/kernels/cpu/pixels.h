#pragma once

#include <cstdint>

#include "worker/kernels/cpu/step_kernels.h"

namespace ampd::kernels {

// How bytes of an image become numbers: (byte / 255 - mean) / deviation in fp32, rounded after each operation.
struct PixelScale {
  float mean = 0;
  float deviation = 1;
  // Whether it takes divisions to round so. For most scales a product and a fused one with the reciprocal in two floats
  // (Brisebarre, Muller and Raina, 2004) give the same bits for each of the 256 bytes.
  bool divides = true;

  // Tries all bytes.
  static PixelScale Of(float mean, float deviation);
};

// out[i] = in[i] as `scale` says, in the same bits under every instruction set. `in` and `out` have `count` elements
// and do not overlap. Runs on the calling thread.
using MapPixels = void (*)(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);

// The loop for an instruction set; null where the machine does not run it.
MapPixels PixelsFor(InstructionSet set);

// The loop of the widest set that the machine runs.
MapPixels BestPixels();

}  // namespace ampd::kernels
