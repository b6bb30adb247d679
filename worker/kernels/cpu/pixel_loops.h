#pragma once

#include <cstdint>

#include "worker/kernels/cpu/pixels.h"

// What pixels.inc is compiled to, once for each instruction set; PixelsFor asks before it gives one away.
namespace ampd::kernels {

void MapPixelsPortable(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);
void MapPixelsAvx2(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);
void MapPixelsAvx512(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);

// 1 / divisor in twice the digits of a float: `low` is what `high`, the nearest float, is off by.
struct Reciprocal {
  float high;
  float low;
};

// Both are static: each file that includes this has instructions of its own, which no other may take over.
static inline Reciprocal ReciprocalOf(float divisor) {
  const double exact = 1.0 / static_cast<double>(divisor);
  const auto high = static_cast<float>(exact);
  return {high, static_cast<float>(exact - static_cast<double>(high))};
}

// number / divisor but for the last bit of some.
static inline float Quotient(float number, float high, float low) { return __builtin_fmaf(number, high, number * low); }

}  // namespace ampd::kernels
