#pragma once

#include <cstdint>

#include "worker/kernels/cpu/step_kernels.h"

namespace ampd::kernels {

// Conversion of image bytes to numbers: (byte / 255 - mean) / deviation in fp32, rounded after each operation.
struct PixelScale {
  float mean = 0;
  float deviation = 1;
  // Whether the loop must divide. For most scales it need not: multiplications by the reciprocal, held in two floats
  // (Brisebarre, Muller and Raina, 2004), give the same bits for all 256 bytes.
  bool divides = true;

  // Returns the scale. Sets `divides` if multiplications give other bits than divisions for one of the 256 bytes.
  static PixelScale Of(float mean, float deviation);
};

// Sets out[i] from in[i] by `scale`, with the same bits under every instruction set. `in` and `out` have `count`
// elements and do not overlap. Runs on the calling thread.
using MapPixels = void (*)(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);

// The loop for an instruction set; null if the machine cannot run it.
MapPixels PixelsFor(InstructionSet set);

// The loop for the widest set that the machine can run.
MapPixels BestPixels();

}  // namespace ampd::kernels
