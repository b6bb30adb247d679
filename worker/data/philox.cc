#include "worker/data/philox.h"

#include <cmath>
#include <numbers>

namespace ampd::data {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint64_t PhiloxBits(uint64_t seed, uint64_t stream, uint64_t index) {
  const auto bits = Philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                            static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                           {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

float PhiloxNormal(uint64_t seed, uint64_t stream, uint64_t index) {
  const uint64_t bits = PhiloxBits(seed, stream, index);
  const double radius = (static_cast<double>(bits >> 32) + 1) * 0x1p-32;  // (0, 1]
  const double angle = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle));
}

}  // namespace ampd::data
