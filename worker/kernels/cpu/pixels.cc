#include "worker/kernels/cpu/pixels.h"

#include "worker/kernels/cpu/pixel_loops.h"

namespace ampd::kernels {

PixelScale PixelScale::Of(float mean, float deviation) {
  PixelScale scale{.mean = mean, .deviation = deviation, .divides = false};
  const Reciprocal most = ReciprocalOf(255.0F);
  const Reciprocal spread = ReciprocalOf(deviation);
  for (int byte = 0; byte < 256; ++byte) {
    const auto number = static_cast<float>(byte);
    const float share = number / 255.0F;
    const bool is_same = Quotient(number, most.high, most.low) == share &&
                         Quotient(share - mean, spread.high, spread.low) == (share - mean) / deviation;
    scale.divides = scale.divides || !is_same;
  }
  return scale;
}

MapPixels PixelsFor(InstructionSet set) {
  if (KernelsFor(set) == nullptr) {
    return nullptr;
  }
  switch (set) {
    case InstructionSet::kPortable:
      return MapPixelsPortable;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("fma") ? MapPixelsAvx2 : nullptr;
    case InstructionSet::kAvx512:
      return MapPixelsAvx512;
  }
  return nullptr;
}

MapPixels BestPixels() {
  MapPixels best = nullptr;
  for (const InstructionSet set : kInstructionSets) {
    const MapPixels loop = PixelsFor(set);
    best = loop != nullptr ? loop : best;
  }
  return best;
}

}  // namespace ampd::kernels
