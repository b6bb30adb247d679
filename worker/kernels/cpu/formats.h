#pragma once

#include <bit>
#include <cstdint>

#include "worker/kernels/host_device.h"

// The 16-bit formats, bit by bit, rounding to nearest even as IEEE 754 and every accelerator do. Header-only so that
// the loops over tensors vectorise.
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

AMPD_HOST_DEVICE inline float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  // Moves the exponent's bias from 15 to 127 by a product, which also normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= (0x7c00u << 13) ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

AMPD_HOST_DEVICE inline uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x7f800000) {
    return static_cast<uint16_t>(sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x200 : 0));
  }
  if (magnitude >= 0x477ff000) {  // 65520 and above round to infinity
    return static_cast<uint16_t>(sign | 0x7c00);
  }
  if (magnitude < 0x38800000) {
    // Below the smallest normal: adding 0.5 leaves value / 2^-24, rounded by the hardware, in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rebased = magnitude - (112u << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13));
}

AMPD_HOST_DEVICE inline bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7f800000) != 0x7f800000;
}

}  // namespace ampd::kernels
