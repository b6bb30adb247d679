#pragma once

#include <cstdint>

#include "worker/kernels/host_device.h"
#include "worker/kernels/step_math.h"

// Random bits for rounding: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). It
// is a function without state, so the bits depend neither on the number of threads nor on the order of elements.
namespace ampd::kernels {

struct PhiloxBlock {
  uint32_t words[4];
};

AMPD_HOST_DEVICE inline PhiloxBlock Philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  uint32_t a = counter.words[0], b = counter.words[1], c = counter.words[2], d = counter.words[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * a;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(product1 >> 32) ^ b ^ key0;
    b = static_cast<uint32_t>(product1);
    c = static_cast<uint32_t>(product0 >> 32) ^ d ^ key1;
    d = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return {{a, b, c, d}};
}

inline constexpr int kRandomElements = 8;  // Elements served by one block, 16 bits each.

// Returns the bits for elements 8 * group to 8 * group + 7 of one tensor of a step. Element e uses
// RandomHalf(block, e % 8). `stream`: the tensor's number (TensorRow::number). REQUIRES: the tensor has fewer than 2^35
// elements.
AMPD_HOST_DEVICE inline PhiloxBlock RandomBlock(const StepScalars& scalars, uint32_t stream, int64_t group) {
  const auto step = static_cast<uint64_t>(scalars.step);
  return Philox(
      {{static_cast<uint32_t>(group), stream, static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)}},
      static_cast<uint32_t>(scalars.rounding_seed), static_cast<uint32_t>(scalars.rounding_seed >> 32));
}

AMPD_HOST_DEVICE inline uint16_t RandomHalf(const PhiloxBlock& block, int element) {
  return static_cast<uint16_t>(block.words[element / 2] >> (element % 2 * 16));
}

}  // namespace ampd::kernels
