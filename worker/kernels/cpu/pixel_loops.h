#pragma once

#include <cstdint>

#include "worker/kernels/cpu/pixels.h"

// What pixels.inc is compiled to, once for each instruction set; PixelsFor asks before it gives one away.
namespace ampd::kernels {

void MapPixelsPortable(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);
void MapPixelsAvx2(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);
void MapPixelsAvx512(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);

// number / divisor but for the last bit of some; `reciprocal` is 1 / divisor. Static: each file that includes this has
// instructions of its own, which no other may take over.
static inline float Quotient(float number, float divisor, float reciprocal) {
  const float near = number * reciprocal;
  return __builtin_fmaf(__builtin_fmaf(-near, divisor, number), reciprocal, near);
}

}  // namespace ampd::kernels
