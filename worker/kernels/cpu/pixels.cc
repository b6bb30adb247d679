#include "worker/kernels/cpu/pixels.h"

#include "worker/kernels/cpu/pixel_loops.h"

namespace ampd::kernels {

MapPixels PixelsFor(InstructionSet set) {
  if (KernelsFor(set) == nullptr) {
    return nullptr;
  }
  switch (set) {
    case InstructionSet::kPortable:
      return MapPixelsPortable;
    case InstructionSet::kAvx2:
      return MapPixelsAvx2;
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
