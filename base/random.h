#pragma once

#include <cstdint>
#include <string>

namespace ampd {

// A source of random bits for ids and tokens.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual uint64_t Next() = 0;
};

// The kernel's generator: unpredictable, thread-safe, never destroyed.
RandomSource& SystemRandom();

// A generator that gives the same numbers for the same seed: SplitMix64 (Steele, Lea, Flood 2014). Thread-compatible.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override;

 private:
  uint64_t state_;
};

// A random string of `length` characters from a-z and 2-7. Each character holds five random bits.
std::string RandomId(RandomSource& random, int length);

}  // namespace ampd
