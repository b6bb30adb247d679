#pragma once

#include <cstdint>

#include "worker/kernels/cpu/pixels.h"

// The functions compiled from pixels.inc, one per instruction set. PixelsFor checks the machine before it returns one.
namespace ampd::kernels {

void MapPixelsPortable(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);
void MapPixelsAvx2(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);
void MapPixelsAvx512(const uint8_t* in, int64_t count, const PixelScale& scale, float* out);

// 1 / divisor with twice a float's precision: `high` is the nearest float, `low` the difference.
struct Reciprocal {
  float high;
  float low;
};

// This function and Quotient are static, because each file that includes them is compiled for its own instruction set,
// and the linker must not merge the copies.
static inline Reciprocal ReciprocalOf(float divisor) {
  const double exact = 1.0 / static_cast<double>(divisor);
  const auto high = static_cast<float>(exact);
  return {high, static_cast<float>(exact - static_cast<double>(high))};
}

// Returns number / divisor, where `high` and `low` are ReciprocalOf(divisor). In some cases the last bit is wrong.
static inline float Quotient(float number, float high, float low) { return __builtin_fmaf(number, high, number * low); }

}  // namespace ampd::kernels
