#include "worker/amp/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "worker/amp/plateau.h"

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

// Returns after how many evaluations with this loss the learning rate falls.
int EvalsUntilFall(Plateau& plateau, double loss) {
  int count = 1;
  while (!plateau.Observe(loss)) {
    ++count;
  }
  return count;
}

TEST(Plateau, FallsWhenTheLossStandsStillForLongerThanItsPatience) {
  Plateau plateau({.factor = 0.5, .patience_evals = 2, .threshold = 0.1, .cooldown_evals = 3}, 0.25);
  EXPECT_FALSE(plateau.Observe(10));
  EXPECT_FALSE(plateau.Observe(8)) << "an improvement";
  EXPECT_EQ(EvalsUntilFall(plateau, 7.5), 3) << "less than a tenth is none";
  EXPECT_EQ(plateau.learning_rate(), 0.125);
  EXPECT_EQ(EvalsUntilFall(plateau, NAN), 6) << "three of the cooldown do not count";
  EXPECT_EQ(plateau.state().rate_factor, 0.25);
}

TEST(Plateau, EndsAtTheLeastRate) {
  Plateau plateau({.factor = 0.5, .patience_evals = 0, .min_learning_rate = 0.1}, 0.25);
  EXPECT_FALSE(plateau.Observe(1));
  EXPECT_TRUE(plateau.Observe(1));
  EXPECT_TRUE(plateau.Observe(1));
  EXPECT_DOUBLE_EQ(plateau.learning_rate(), 0.1);
  EXPECT_FALSE(plateau.Observe(1));
}

TEST(Plateau, ARestoredOneGoesOnAsTheWholeOne) {
  const PlateauConfig config{.factor = 0.5, .patience_evals = 1, .cooldown_evals = 2};
  for (int cut = 0; cut < 12; ++cut) {
    Plateau whole(config, 1);
    Plateau resumed(config, 1);
    for (int i = 0; i < 12; ++i) {
      if (i == cut) {
        resumed.Restore(whole.state());
      }
      const double loss = i < 3 ? 10 - i : 9;
      whole.Observe(loss);
      if (i >= cut) {
        resumed.Observe(loss);
      }
    }
    EXPECT_EQ(resumed.state(), whole.state()) << "cut at " << cut;
    EXPECT_LT(whole.learning_rate(), 0.3);
  }
}

}  // namespace
}  // namespace ampd::amp
