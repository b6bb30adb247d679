#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace ampd {
namespace {

class KernelRandom final : public RandomSource {
 public:
  uint64_t Next() override {
    uint64_t value = 0;
    // getrandom returns requests of up to 256 bytes completely. It fails only if a signal interrupts it before the
    // kernel's generator is ready.
    while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
      if (errno != EINTR) {
        std::abort();
      }
    }
    return value;
  }
};

}  // namespace

RandomSource& SystemRandom() {
  static KernelRandom random;
  return random;
}

uint64_t SeededRandom::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::string RandomId(RandomSource& random, int length) {
  static constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
  std::string id;
  uint64_t bits = 0;
  for (int i = 0; i < length; ++i) {
    bits = i % 12 == 0 ? random.Next() : bits >> 5;
    id.push_back(kAlphabet[bits & 31]);
  }
  return id;
}

}  // namespace ampd
