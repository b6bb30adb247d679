#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/host_device.h"

// Conversion of numbers to FP8, for the CUDA kernels and for the tests that compare them with LibTorch's CPU ops
// (worker/amp/fp8/fp8_tensor.h), bit for bit. Compiled without contraction (fused multiply-adds), every device gives
// the same codes.
namespace ampd::kernels {

enum class Fp8Format { kE4M3, kE5M2 };

// How many numbers of a row share a scale. Also the number of rows, and of columns, of a square whose numbers share a
// scale.
inline constexpr int64_t kFp8Block = 128;

// Every scale is between these. So a scale and its reciprocal are finite and not 0, and zeros stay zeros: the scale of
// a tiny amax would otherwise be infinite, and that of a huge one could be rounded down to 0.
inline constexpr float kSmallestFp8Scale = 0x1p-126f;
inline constexpr float kLargestFp8Scale = 0x1p126f;

// How to compute a scale from an amax, the largest magnitude among the numbers that share it.
struct Fp8Scaling {
  float largest = 448;           // The scaled amax is at most this.
  float smallest_amax = 1e-12f;  // A smaller amax is replaced by this.
  bool power_of_two = true;      // Rounds the scale down, so that scaling itself loses no bits.
};

// Returns the magnitude of a number as an integer: the larger the magnitude, the larger the integer, and NaN gives
// the largest. So the maximum of such integers shows if any number is infinite or NaN. The maximum does not depend on
// the order of the numbers.
AMPD_HOST_DEVICE inline uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

// The scale, by which numbers are multiplied before they are rounded: at least kSmallestFp8Scale, at most
// kLargestFp8Scale, and NaN if the amax is not finite.
AMPD_HOST_DEVICE inline float Fp8Scale(float amax, const Fp8Scaling& scaling) {
  if (!IsFinite(amax)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = 1.0f / (amax < scaling.smallest_amax ? scaling.smallest_amax : amax) * scaling.largest;
  constexpr uint32_t kSignAndExponent = 0xff800000;
  const float rounded =
      scaling.power_of_two ? std::bit_cast<float>(std::bit_cast<uint32_t>(scale) & kSignAndExponent) : scale;
  if (rounded < kSmallestFp8Scale) {
    return kSmallestFp8Scale;
  }
  if (rounded > kLargestFp8Scale) {
    return kLargestFp8Scale;
  }
  return rounded;
}

// The FP8 code of the nearest number in a format with these mantissa bits and this exponent bias; ties go to even. A
// number beyond the largest finite one gets the code of the largest. NaN gets 0x7f.
template <int kMantissaBits, int kBias>
AMPD_HOST_DEVICE inline uint8_t NearestFp8(float value, float largest) {
  constexpr int kShift = 23 - kMantissaBits;
  constexpr uint32_t kRebased = (127u - kBias) << 23;
  constexpr uint32_t kSmallestNormal = kRebased + (1u << 23);
  // At this magnitude, neighbouring fp32 numbers are as far apart as the FP8 format's subnormal numbers. So adding it
  // to a number makes the hardware round to a subnormal.
  constexpr uint32_t kBesideSubnormals = (127u + 24 - kBias - kMantissaBits) << 23;
  const uint32_t magnitude = MagnitudeBits(value);
  const uint32_t most = std::bit_cast<uint32_t>(largest);
  const uint32_t bounded = magnitude < most ? magnitude : most;
  const uint32_t normal = (bounded - kRebased + (1u << (kShift - 1)) - 1 + ((bounded >> kShift) & 1)) >> kShift;
  const float beside = std::bit_cast<float>(bounded) + std::bit_cast<float>(kBesideSubnormals);
  const uint32_t subnormal = std::bit_cast<uint32_t>(beside) - kBesideSubnormals;
  const uint32_t finite =
      (bounded < kSmallestNormal ? subnormal : normal) | (std::bit_cast<uint32_t>(value) >> 31 << 7);
  return static_cast<uint8_t>(magnitude > 0x7f800000 ? 0x7f : finite);
}

AMPD_HOST_DEVICE inline uint8_t ToFp8(float value, Fp8Format format) {
  return format == Fp8Format::kE4M3 ? NearestFp8<3, 7>(value, 448.0f) : NearestFp8<2, 15>(value, 57344.0f);
}

}  // namespace ampd::kernels
