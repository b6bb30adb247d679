#pragma once

#include <bit>
#include <cstdint>

#include "worker/kernels/host_device.h"

// Conversions between fp32 and the 16-bit formats, written with operations on bits. Unless stated otherwise, they round
// to nearest even, as IEEE 754 and all accelerators do. Header-only so that the loops over tensors vectorise.
namespace ampd::kernels {

enum class Format { kFloat32, kBFloat16, kFloat16 };

AMPD_HOST_DEVICE inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

AMPD_HOST_DEVICE inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  // A NaN whose payload is in the lower half must not round to infinity.
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

// UpperHalf and LowerHalf split an fp32 number; Join restores it. The upper half is the nearest bf16 number, with ties
// away from zero, so that the lower half shows which way it was rounded and Join restores every bit. A NaN stays a NaN
// but loses its payload.
AMPD_HOST_DEVICE inline uint16_t UpperHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : (bits + 0x8000) >> 16);
}

AMPD_HOST_DEVICE inline uint16_t LowerHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0 : bits);
}

AMPD_HOST_DEVICE inline float Join(uint16_t upper, uint16_t lower) {
  return std::bit_cast<float>(((static_cast<uint32_t>(upper) - (lower >> 15)) << 16) | lower);
}

// Rounds up with a probability equal to the discarded fraction, using 16 random bits, so that the mean is exact.
AMPD_HOST_DEVICE inline uint16_t ToBFloat16Stochastic(float value, uint16_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : bits + random) >> 16);
}

AMPD_HOST_DEVICE inline float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  // Changes the exponent's bias from 15 to 127 by a multiplication, which also normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= (0x7c00u << 13) ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

AMPD_HOST_DEVICE inline uint16_t ToFloat16(float value) {
  // Computes all cases and selects one by a mask, so that loops vectorise.
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t rebased = magnitude - (112u << 23);
  const uint32_t normal = (rebased + 0xfff + ((rebased >> 13) & 1)) >> 13;
  // Rounds numbers below the smallest normal one: adding 0.5 makes the hardware round them to multiples of 2^-24, and
  // leaves the multiple in the low bits.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const uint32_t is_subnormal = 0u - static_cast<uint32_t>(magnitude < 0x38800000);
  const uint32_t is_infinite = 0u - static_cast<uint32_t>(magnitude >= 0x477ff000);  // 65520 and above
  const uint32_t is_nan = 0u - static_cast<uint32_t>(magnitude > 0x7f800000);
  const uint32_t finite = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  const uint32_t result = (finite & ~is_infinite) | (is_infinite & 0x7c00) | (is_nan & 0x200);
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000));
}

AMPD_HOST_DEVICE inline bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7f800000) != 0x7f800000;
}

}  // namespace ampd::kernels
