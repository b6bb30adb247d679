#include "worker/kernels/cpu/pixels.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <utility>
#include <vector>

namespace ampd::kernels {
namespace {

// Pairs of a mean and a standard deviation. The last deviation is so small that its reciprocal is infinite in fp32.
constexpr std::pair<float, float> kScales[] = {
    {0, 1}, {0.286F, 0.353F}, {0.4914F, 0.247F}, {-3, 1e-3F}, {0.5F, 1e-40F}};

// Every byte is tried at every position in a register, so that heads and tails of the loops are covered too.
TEST(MapPixels, EveryInstructionSetRoundsAfterEachOperation) {
  constexpr int64_t kMost = 300;
  for (const InstructionSet set : kInstructionSets) {
    const MapPixels map_pixels = PixelsFor(set);
    if (map_pixels == nullptr) {
      std::printf("not run here: %s\n", set == InstructionSet::kAvx2 ? "avx2" : "avx512");
      continue;
    }
    for (const auto& [mean, deviation] : kScales) {
      const PixelScale scale = PixelScale::Of(mean, deviation);
      for (int64_t count = 0; count <= kMost; ++count) {
        std::vector<uint8_t> bytes(count);
        for (int64_t i = 0; i < count; ++i) {
          bytes[i] = static_cast<uint8_t>(count + i);
        }
        std::vector<float> numbers(count + 1, -1);
        map_pixels(bytes.data(), count, scale, numbers.data());
        for (int64_t i = 0; i < count; ++i) {
          volatile float share = static_cast<float>(bytes[i]) / 255.0F;  // volatile prevents fused operations.
          volatile float centred = share - mean;
          ASSERT_EQ(numbers[i], centred / deviation) << "byte " << int{bytes[i]} << " at " << i << " of " << count;
        }
        ASSERT_EQ(numbers[count], -1) << "written past the end";
      }
    }
  }
}

TEST(PixelScale, DividesOnlyWhereProductsRoundDifferently) {
  for (const auto& [mean, deviation] : kScales) {
    EXPECT_EQ(PixelScale::Of(mean, deviation).divides, deviation == 1e-40F) << mean << ", " << deviation;
  }
  EXPECT_TRUE(PixelScale::Of(0, 0).divides);
}

TEST(MapPixels, TheBestIsOneThatRuns) { EXPECT_NE(BestPixels(), nullptr); }

}  // namespace
}  // namespace ampd::kernels
