#include "client/compare/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ampd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(StudentQuantile, IsThatOfThePublishedTables) {
  EXPECT_NEAR(StudentQuantile(1), 12.7062, 1e-4);
  EXPECT_NEAR(StudentQuantile(2), 4.3027, 1e-4);
  EXPECT_NEAR(StudentQuantile(3), 3.1824, 1e-4);
  EXPECT_NEAR(StudentQuantile(4), 2.7764, 1e-4);
  EXPECT_NEAR(StudentQuantile(9), 2.2622, 1e-4);
  EXPECT_NEAR(StudentQuantile(30), 2.0423, 1e-4);
  EXPECT_NEAR(StudentQuantile(1000), 1.9623, 1e-4);
}

TEST(MeanOfPairs, HasTheTIntervalOfTheMean) {
  const Difference difference = MeanOfPairs({1, 2, 3});
  EXPECT_DOUBLE_EQ(difference.value, 2);
  // The sample standard deviation is 1, so the half width is t / sqrt(3), with t = 4.3027 for 2 degrees of freedom.
  EXPECT_NEAR(difference.half_width.value(), 4.3027 / std::sqrt(3.0), 1e-4);
  EXPECT_FALSE(difference.exceeds_noise());
  EXPECT_TRUE(MeanOfPairs({2.0, 2.1, 1.9, 2.0}).exceeds_noise());
  EXPECT_TRUE(MeanOfPairs({-2.0, -2.1, -1.9, -2.0}).exceeds_noise());
}

TEST(MeanOfPairs, OfOnePairHasUnknownNoiseAndExceedsNothing) {
  const Difference difference = MeanOfPairs({100});
  EXPECT_EQ(difference.half_width, std::nullopt);
  EXPECT_FALSE(difference.exceeds_noise());
}

TEST(Smoothed, IsTheAverageOfTensorBoard) {
  // TensorBoard's averages for the weight 0.5: 1, (0.5*1 + 2) / 1.5, (0.25*1 + 0.5*2 + 4) / 1.75.
  EXPECT_THAT(Smoothed({1, 2, 4}, 0.5),
              ElementsAre(DoubleNear(1, 1e-12), DoubleNear(2.5 / 1.5, 1e-12), DoubleNear(5.25 / 1.75, 1e-12)));
}

TEST(Smoothed, LeavesOutWhatIsNotFinite) {
  const std::vector<double> smoothed = Smoothed({kNan, 3, kNan, 3}, 0.5);
  EXPECT_TRUE(std::isnan(smoothed[0]));
  EXPECT_THAT(std::vector<double>(smoothed.begin() + 1, smoothed.end()), ElementsAre(3, 3, 3));
}

TEST(TailOf, ACurveThatStillFalls_HasNoNoise) {
  std::vector<double> losses;
  for (int i = 0; i < 300; ++i) {
    losses.push_back(10 - 0.01 * i);
  }
  const auto tail = TailOf(losses);
  ASSERT_TRUE(tail.has_value());
  EXPECT_NEAR(tail->level, 10 - 0.01 * 269.5, 1e-9) << "the mean of the last fifth";
  EXPECT_LT(tail->noise, 1e-9);
}

TEST(TailOf, NoiseGrowsWithTheVariationOfTheLosses) {
  const auto noise = [](double height) {
    std::vector<double> losses;
    for (int i = 0; i < 200; ++i) {
      losses.push_back(1 + height * std::sin(i * i));
    }
    return TailOf(losses)->noise;
  };
  EXPECT_GT(noise(0.1), 0.005);
  EXPECT_NEAR(noise(0.2) / noise(0.1), 2, 1e-6);
}

TEST(TailOf, ACurveThatBecameNan_HasALevelThatIsNotFinite) {
  std::vector<double> losses(100, 1.0);
  std::fill(losses.end() - 11, losses.end(), kNan);
  EXPECT_TRUE(std::isnan(TailOf(losses)->level));
  losses.assign(100, 1.0);
  std::fill(losses.end() - 3, losses.end(), kNan);
  EXPECT_DOUBLE_EQ(TailOf(losses)->level, 1) << "a few skipped steps are left out";
}

TEST(TailOf, AShortCurve_IsTooShortToKnow) {
  EXPECT_FALSE(TailOf(std::vector<double>(19, 1.0)).has_value());
  EXPECT_TRUE(TailOf(std::vector<double>(20, 1.0)).has_value());
}

}  // namespace
}  // namespace ampd::client
