#pragma once

#include <array>
#include <cstdint>

namespace ampd::data {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128 random bits for a counter
// and a key. The function has no state: the counter gives the position in a stream of random bits.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The 64 random bits at position `index` of the stream (seed, stream).
uint64_t PhiloxBits(uint64_t seed, uint64_t stream, uint64_t index);

// A standard normal number, made from PhiloxBits by the Box-Muller transform.
float PhiloxNormal(uint64_t seed, uint64_t stream, uint64_t index);

}  // namespace ampd::data
