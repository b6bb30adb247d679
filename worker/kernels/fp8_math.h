#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/host_device.h"

// What bringing a number into FP8 does to it, for the CUDA kernels and the tests that hold them against LibTorch's CPU
// ops (worker/amp/fp8/fp8_tensor.h), bit for bit. Compiled without contraction, every device gives the same codes.
namespace ampd::kernels {

enum class Fp8Format { kE4M3, kE5M2 };

// How many numbers of a row, or rows and columns of a square, share a scale.
inline constexpr int64_t kFp8Block = 128;

// How a scale follows from an amax, the largest magnitude of the numbers that share it.
struct Fp8Scaling {
  float largest = 448;           // what the amax is brought to, at most
  float smallest_amax = 1e-12f;  // a smaller amax counts as this
  bool power_of_two = true;      // rounds the scale down, so that scaling itself loses no bits
};

// A magnitude as an integer that grows with it, the greatest for NaN: a maximum of them hides no number that is not
// finite, and is the same in any order.
AMPD_HOST_DEVICE inline uint32_t MagnitudeBits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

// What numbers are multiplied by. NaN for an amax that is not finite.
AMPD_HOST_DEVICE inline float Fp8Scale(float amax, const Fp8Scaling& scaling) {
  if (!IsFinite(amax)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = 1.0f / (amax < scaling.smallest_amax ? scaling.smallest_amax : amax) * scaling.largest;
  constexpr uint32_t kSignAndExponent = 0xff800000;
  return scaling.power_of_two ? std::bit_cast<float>(std::bit_cast<uint32_t>(scale) & kSignAndExponent) : scale;
}

// The code of the nearest number of a format with so many bits of mantissa, of two as near the one with the even code;
// beyond the largest finite number that one. 0x7f for NaN.
template <int kMantissaBits, int kBias>
AMPD_HOST_DEVICE inline uint8_t NearestFp8(float value, float largest) {
  constexpr int kShift = 23 - kMantissaBits;
  constexpr uint32_t kRebased = (127u - kBias) << 23;
  constexpr uint32_t kSmallestNormal = kRebased + (1u << 23);
  // Beside it the unit of fp32 is that of the subnormals, so that a sum with it is rounded by the hardware.
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
