#include "worker/amp/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ampd::amp {
namespace {

using Shape = ScheduleConfig::Shape;

TEST(Schedule, ConstantIsOneThroughout) {
  const ScheduleConfig schedule{.total_steps = 10};
  EXPECT_EQ(RateFactor(schedule, 0), 1);
  EXPECT_EQ(RateFactor(schedule, 9), 1);
}

TEST(Schedule, WarmUpReachesTheFullRateOnItsLastStepAndNeverStandsStill) {
  const ScheduleConfig schedule{.warmup_steps = 4, .total_steps = 10};
  EXPECT_EQ(RateFactor(schedule, 0), 0.25);
  EXPECT_EQ(RateFactor(schedule, 3), 1);
  EXPECT_EQ(RateFactor(schedule, 4), 1);
}

TEST(Schedule, CosineFallsFromOneToTheFinalRatioOverWhatTheWarmUpLeaves) {
  const ScheduleConfig schedule{.shape = Shape::kCosine, .warmup_steps = 10, .total_steps = 110, .final_ratio = 0.1};
  EXPECT_EQ(RateFactor(schedule, 10), 1);
  EXPECT_NEAR(RateFactor(schedule, 60), 0.55, 1e-12);
  EXPECT_NEAR(RateFactor(schedule, 110), 0.1, 1e-12);
  EXPECT_NEAR(RateFactor(schedule, 500), 0.1, 1e-12);
  for (int64_t step = 11; step < 110; ++step) {
    EXPECT_LT(RateFactor(schedule, step), RateFactor(schedule, step - 1));
  }
}

TEST(Schedule, StepMultipliesAtEveryMultiple) {
  const ScheduleConfig schedule{.shape = Shape::kStep, .total_steps = 100, .every_steps = 10, .factor = 0.5};
  EXPECT_EQ(RateFactor(schedule, 9), 1);
  EXPECT_EQ(RateFactor(schedule, 10), 0.5);
  EXPECT_EQ(RateFactor(schedule, 35), 0.125);
}

TEST(Schedule, LinearAndPolynomialEndAtTheirFinalRatio) {
  const ScheduleConfig linear{.shape = Shape::kLinear, .total_steps = 100, .final_ratio = 0.2};
  EXPECT_NEAR(RateFactor(linear, 50), 0.6, 1e-12);
  EXPECT_NEAR(RateFactor(linear, 100), 0.2, 1e-12);
  const ScheduleConfig square{.shape = Shape::kPolynomial, .total_steps = 100, .final_ratio = 0, .power = 2};
  EXPECT_NEAR(RateFactor(square, 50), 0.25, 1e-12);
}

}  // namespace
}  // namespace ampd::amp
