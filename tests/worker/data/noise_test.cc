#include "worker/data/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "ATen/ops/equal.h"
#include "worker/data/philox.h"

namespace ampd::data {
namespace {

constexpr int64_t kNumbers = 100;
constexpr uint64_t kSeed = 7;

TEST(NoiseOf, ARowDependsOnSeedEpochAndSampleAlone) {
  const at::Tensor noise = NoiseOf(kSeed, 3, {5, 1, 9}, {kNumbers});
  ASSERT_EQ(noise.sizes(), (std::vector<int64_t>{3, kNumbers}));
  EXPECT_TRUE(noise.select(0, 2).equal(NoiseOf(kSeed, 3, {9}, {kNumbers})[0]));
  EXPECT_TRUE(noise.select(0, 1).equal(NoiseOf(kSeed, 3, {0, 1}, {kNumbers})[1]));
  EXPECT_TRUE(noise.view({3, 4, 25}).equal(NoiseOf(kSeed, 3, {5, 1, 9}, {4, 25}))) << "whatever its shape";
  EXPECT_TRUE(NoiseOf(kSeed, 3, {5, 1}, {}).equal(NoiseOf(kSeed, 3, {5, 1}, {1}).view({2}))) << "a number a sample";
  EXPECT_FALSE(noise.select(0, 2).equal(NoiseOf(kSeed, 4, {9}, {kNumbers})[0])) << "another epoch";
  EXPECT_FALSE(noise.select(0, 2).equal(NoiseOf(kSeed + 1, 3, {9}, {kNumbers})[0])) << "another seed";
  EXPECT_FALSE(noise.select(0, 2).equal(noise.select(0, 1))) << "another sample";
}

TEST(NoiseOf, MemoryOfEarlierNoise_IsUsedAgainIfItFits) {
  const at::Tensor expected = NoiseOf(kSeed, 3, {9, 2}, {kNumbers});
  const at::Tensor old = NoiseOf(kSeed, 3, {5, 1}, {kNumbers});
  const at::Tensor again = NoiseOf(kSeed, 3, {9, 2}, {kNumbers}, old);
  EXPECT_EQ(again.const_data_ptr(), old.const_data_ptr());
  EXPECT_TRUE(again.equal(expected));
  EXPECT_NE(NoiseOf(kSeed, 3, {9}, {kNumbers}, old).const_data_ptr(), old.const_data_ptr()) << "another shape";
}

TEST(NoiseOf, ItsNumbersAreNormalAndNoneComesTwice) {
  std::vector<int64_t> samples(2000);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<int64_t>(i);
  }
  const at::Tensor noise = NoiseOf(kSeed, 0, samples, {kNumbers});
  const double error = 1 / std::sqrt(static_cast<double>(noise.numel()));
  EXPECT_NEAR(noise.mean().item<double>(), 0, 5 * error);
  EXPECT_NEAR(noise.std().item<double>(), 1, 5 * error);
  EXPECT_NEAR(noise.abs().le(1.0).to(at::kDouble).mean().item<double>(), 0.6827, 3 * error) << "within a deviation";
  std::set<std::vector<float>> rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    const float* const row = noise.const_data_ptr<float>() + static_cast<int64_t>(i) * kNumbers;
    rows.insert(std::vector<float>(row, row + kNumbers));
  }
  EXPECT_EQ(rows.size(), samples.size());
}

// The noise uses the same seed as the shuffle, the augmentation and the synthetic data. But the noise must not use the
// same random numbers.
TEST(NoiseOf, IsOfAStreamOfItsOwn) {
  const float first = NoiseOf(kSeed, 0, {0}, {1}).item<float>();
  for (const uint64_t stream : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{1} << 63}) {
    EXPECT_NE(first, PhiloxNormal(kSeed, stream, 0)) << stream;
  }
}

TEST(FixedNoiseOf, ARowIsTheSameHoweverManyThereAreAndNoSamples) {
  const at::Tensor noise = FixedNoiseOf(kSeed, 64, kNumbers);
  ASSERT_EQ(noise.sizes(), (std::vector<int64_t>{64, kNumbers}));
  EXPECT_TRUE(noise.narrow(0, 0, 4).equal(FixedNoiseOf(kSeed, 4, kNumbers)));
  EXPECT_FALSE(noise.equal(FixedNoiseOf(kSeed + 1, 64, kNumbers))) << "another seed";
  EXPECT_FALSE(noise[0].equal(noise[1]));
  EXPECT_FALSE(noise[0].equal(NoiseOf(kSeed, 0, {0}, {kNumbers})[0])) << "training draws that";
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.07);
  EXPECT_NEAR(noise.std().item<double>(), 1, 0.07);
}

}  // namespace
}  // namespace ampd::data
