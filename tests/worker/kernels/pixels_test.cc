#include "worker/kernels/cpu/pixels.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <utility>
#include <vector>

namespace ampd::kernels {
namespace {

// Every byte, at every place in a register, so that heads and tails of the loops are met too.
TEST(MapPixels, EveryInstructionSetRoundsAfterEachOperation) {
  constexpr int64_t kMost = 300;
  for (const InstructionSet set : kInstructionSets) {
    const MapPixels map_pixels = PixelsFor(set);
    if (map_pixels == nullptr) {
      std::printf("not run here: %s\n", set == InstructionSet::kAvx2 ? "avx2" : "avx512");
      continue;
    }
    for (const auto& [mean, deviation] : {std::pair(0.0F, 1.0F), {0.286F, 0.353F}, {-3.0F, 1e-3F}}) {
      for (int64_t count = 0; count <= kMost; ++count) {
        std::vector<uint8_t> bytes(count);
        for (int64_t i = 0; i < count; ++i) {
          bytes[i] = static_cast<uint8_t>(count + i);
        }
        std::vector<float> numbers(count + 1, -1);
        map_pixels(bytes.data(), count, mean, deviation, numbers.data());
        for (int64_t i = 0; i < count; ++i) {
          volatile float share = static_cast<float>(bytes[i]) / 255.0F;  // no operation is joined with the next
          volatile float centred = share - mean;
          ASSERT_EQ(numbers[i], centred / deviation) << "byte " << int{bytes[i]} << " at " << i << " of " << count;
        }
        ASSERT_EQ(numbers[count], -1) << "written past the end";
      }
    }
  }
}

TEST(MapPixels, TheBestIsOneThatRuns) { EXPECT_NE(BestPixels(), nullptr); }

}  // namespace
}  // namespace ampd::kernels
