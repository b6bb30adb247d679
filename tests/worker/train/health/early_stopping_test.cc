#include "worker/train/health/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace ampd::train {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr double kNanMetric = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kEvery = 10;  // Steps between evaluations.

v1::EvalPoint Evaluation(int64_t step, double loss, double accuracy = 0.5) {
  v1::EvalPoint point;
  point.set_step(step);
  point.set_loss(loss);
  point.set_accuracy(accuracy);
  return point;
}

// Returns the step at which training stops, with an evaluation every 10 steps; nullopt if it does not stop.
std::optional<int64_t> StopOf(EarlyStopping& stopping, const std::vector<double>& losses) {
  int64_t step = 0;
  for (const double loss : losses) {
    step += kEvery;
    if (stopping.Observe(Evaluation(step, loss))) {
      return step;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> StopOf(const EarlyStoppingConfig& config, const std::vector<double>& losses) {
  EarlyStopping stopping(config);
  return StopOf(stopping, losses);
}

TEST(EarlyStoppingOf, UnsetFields_HaveTheDefaults) {
  const EarlyStoppingConfig config = EarlyStoppingOf(v1::EarlyStopping());
  EXPECT_EQ(config.metric, v1::EarlyStopping::EVAL_LOSS);
  EXPECT_EQ(config.patience, 3);
  EXPECT_EQ(config.min_delta, 0);
  v1::EarlyStopping spec;
  spec.set_metric(v1::EarlyStopping::EVAL_ACCURACY);
  spec.set_patience(7);
  spec.set_min_delta(0.25);
  const EarlyStoppingConfig given = EarlyStoppingOf(spec);
  EXPECT_EQ(given.metric, v1::EarlyStopping::EVAL_ACCURACY);
  EXPECT_EQ(given.patience, 7);
  EXPECT_EQ(given.min_delta, 0.25);
}

TEST(EarlyStopping, StopsAfterAsManyEvaluationsInARowWithoutImprovement) {
  EXPECT_EQ(StopOf({.patience = 2}, {1.0, 0.9, 0.9, 0.95}), 40) << "an equal loss is no improvement";
  EXPECT_EQ(StopOf({.patience = 1}, {1.0, 1.0}), 20);
  EXPECT_EQ(StopOf({.patience = 2}, {1.0, 1.1, 0.9, 1.1, 0.8, 1.1, 1.1}), 70)
      << "an improvement starts the count again";
  EXPECT_EQ(StopOf({.patience = 3}, {1.0, 1.1, 1.1}), std::nullopt);
  EXPECT_EQ(StopOf({.patience = 2}, {5, 4, 3, 2, 1}), std::nullopt);
}

TEST(EarlyStopping, ComparesWithTheBest_NotWithTheLast) {
  EXPECT_EQ(StopOf({.patience = 3}, {0.5, 0.9, 0.8, 0.7}), 40);
}

TEST(EarlyStopping, AChangeOfMinDeltaOrLess_IsNoImprovement) {
  EXPECT_EQ(StopOf({.patience = 1, .min_delta = 0.25}, {1.0, 0.75}), 20) << "exactly min_delta";
  EXPECT_EQ(StopOf({.patience = 1, .min_delta = 0.25}, {1.0, 0.7, 0.4}), std::nullopt);
  // Small improvements add up. Each metric is compared with the best so far, and the best changes only when a metric is
  // better by more than min_delta.
  EXPECT_EQ(StopOf({.patience = 3, .min_delta = 0.25}, {1.0, 0.9, 0.8, 0.7}), std::nullopt);
}

TEST(EarlyStopping, AMetricThatIsNotFinite_IsNoImprovement) {
  for (const double odd : {kNanMetric, kInfinity, -kInfinity}) {
    EXPECT_EQ(StopOf({.patience = 2}, {1.0, odd, odd}), 30) << odd;
    EXPECT_EQ(StopOf({.patience = 2}, {odd, odd}), 20) << odd;
    EXPECT_EQ(StopOf({.patience = 2}, {odd, 1.0, odd, 0.9}), std::nullopt) << odd;
  }
}

TEST(EarlyStopping, AnAccuracy_HasToRise) {
  EarlyStopping stopping({.metric = v1::EarlyStopping::EVAL_ACCURACY, .patience = 2, .min_delta = 0.125});
  EXPECT_FALSE(stopping.Observe(Evaluation(10, 1, 0.25)));
  EXPECT_FALSE(stopping.Observe(Evaluation(20, 1, 0.5)));
  EXPECT_FALSE(stopping.Observe(Evaluation(30, 0.1, 0.625))) << "the loss does not count";
  EXPECT_EQ(stopping.state(), (EarlyStoppingState{.best = 0.5, .best_step = 20, .num_bad_evals = 1}));
  EXPECT_TRUE(stopping.Observe(Evaluation(40, 0.1, 0.0)));
}

TEST(EarlyStopping, WithoutAnAccuracy_NeverImproves) {
  EarlyStopping stopping({.metric = v1::EarlyStopping::EVAL_ACCURACY, .patience = 1});
  v1::EvalPoint point = Evaluation(10, 1);
  point.clear_accuracy();
  EXPECT_TRUE(stopping.Observe(point));
}

// One object has its state restored after every evaluation, as in a resumed run. It must decide the same as an object
// that sees all evaluations.
TEST(EarlyStopping, ARestoredOne_DecidesAsOneThatWasNeverInterrupted) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto pick = [&random](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  int num_stops = 0;
  for (int round = 0; round < 500; ++round) {
    const EarlyStoppingConfig config = {
        .metric = pick(2) == 0 ? v1::EarlyStopping::EVAL_LOSS : v1::EarlyStopping::EVAL_ACCURACY,
        .patience = 1 + pick(5),
        .min_delta = pick(2) * 0.125};
    EarlyStopping whole(config);
    EarlyStoppingState saved;
    for (int64_t step = kEvery; step <= 40 * kEvery; step += kEvery) {
      const double metric = pick(10) == 0 ? kNanMetric : pick(16) * 0.0625;  // Few values, so that some are equal.
      EarlyStopping resumed(config);
      resumed.Restore(saved);
      const v1::EvalPoint point = Evaluation(step, metric, metric);
      const bool stops = whole.Observe(point);
      ASSERT_EQ(resumed.Observe(point), stops) << "step " << step;
      ASSERT_EQ(resumed.state(), whole.state());
      saved = resumed.state();
      if (stops) {
        EarlyStopping next(config);
        next.Restore(saved);
        EXPECT_TRUE(next.has_stopped()) << "an attempt that begins there ends there";
        ++num_stops;
        break;
      }
    }
  }
  EXPECT_GT(num_stops, 100);
}

TEST(EarlyStopping, AfterARollBack_CountsOnlyWhatWasBefore) {
  EarlyStopping stopping({.patience = 2});
  EXPECT_EQ(StopOf(stopping, {1.0, 0.5}), std::nullopt);
  const EarlyStoppingState checkpoint = stopping.state();
  EXPECT_TRUE(stopping.Observe(Evaluation(30, 0.6)) || stopping.Observe(Evaluation(40, 0.6)));
  stopping.Restore(checkpoint);
  EXPECT_FALSE(stopping.has_stopped());
  EXPECT_FALSE(stopping.Observe(Evaluation(30, 0.6)));
  stopping.Restore({});
  EXPECT_FALSE(stopping.Observe(Evaluation(10, 9))) << "the first is an improvement";
  EXPECT_EQ(stopping.state().best, 9);
}

TEST(EarlyStopping, WithALongerPatience_AStoppedRunTrainsOn) {
  EarlyStopping stopped({.patience = 2});
  ASSERT_EQ(StopOf(stopped, {1.0, 1.1, 1.1}), 30);
  EarlyStopping longer({.patience = 4});
  longer.Restore(stopped.state());
  EXPECT_FALSE(longer.has_stopped());
  EXPECT_FALSE(longer.Observe(Evaluation(40, 1.1)));
  EXPECT_TRUE(longer.Observe(Evaluation(50, 1.1)));
}

TEST(EarlyStopping, Describes_WhatStoppedIt) {
  EarlyStopping loss({.patience = 3, .min_delta = 0.001});
  ASSERT_EQ(StopOf(loss, {0.5, 0.412, 0.4115, 0.42, 0.43}), 50);
  const Finding stop = loss.Describe(50, 1000);
  EXPECT_EQ(stop.kind, v1::Event::STOPPED_EARLY);
  EXPECT_EQ(stop.message,
            "training stopped early at step 50 of 1000: eval_loss has not fallen by more than 0.001 below its best "
            "value (0.412 at step 20) in the last 3 evaluations");
  EXPECT_THAT(stop.attributes,
              UnorderedElementsAre(Pair("metric", "EVAL_LOSS"), Pair("best", "0.412"), Pair("best_step", "20"),
                                   Pair("min_delta", "0.001"), Pair("patience", "3"), Pair("total_steps", "1000")));

  EarlyStopping accuracy({.metric = v1::EarlyStopping::EVAL_ACCURACY, .patience = 1});
  accuracy.Observe(Evaluation(10, 1, 0.75));
  accuracy.Observe(Evaluation(20, 1, 0.75));
  EXPECT_EQ(accuracy.Describe(20, 30).message,
            "training stopped early at step 20 of 30: eval_accuracy has not risen above its best value (0.75 at step "
            "10) in the last evaluation");

  EarlyStopping odd({.patience = 2});
  ASSERT_EQ(StopOf(odd, {kNanMetric, kNanMetric}), 20);
  const Finding none = odd.Describe(20, 30);
  EXPECT_EQ(none.message, "training stopped early at step 20 of 30: eval_loss was not finite in any of 2 evaluations");
  EXPECT_THAT(none.attributes, Not(Contains(Pair("best", ::testing::_))));
}

}  // namespace
}  // namespace ampd::train
