#include "worker/train/health/divergence_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace ampd::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A run that a DivergenceMonitor observes. Each function whose name starts with Apply or Skip adds one step to the run,
// ApplyHealthy several. `found` lists the findings with their steps, such as "12:loss_spike".
class WatchedRun {
 public:
  explicit WatchedRun(int hysteresis = 1) : hysteresis_(hysteresis) {}

  void Apply(float loss) { Observe({.loss = loss, .grad_norm = 1}); }
  void ApplyAdversarial(float loss) { Observe({.loss = loss, .grad_norm = 1, .adversarial = true}); }
  void SkipUnscaled(float loss) { Observe({.loss = loss, .grad_norm = kNan, .skipped = true}); }
  void Skip(float loss, bool scale_moved, bool at_floor = false) {
    Observe({.loss = loss,
             .grad_norm = kNan,
             .loss_scale = 64,
             .run = {.scaling = precision::LossScaleConfig::Kind::kDynamic, .loss_scale = 64},
             .skipped = true,
             .scale_moved = scale_moved,
             .hysteresis = hysteresis_,
             .at_floor = at_floor});
  }
  // Adds steps whose losses fall from 2.3 to 0.5, as in a healthy run. Each loss has random noise of up to a third of
  // its value.
  void ApplyHealthy(int num_steps) {
    for (int i = 0; i < num_steps; ++i) {
      const double noise = 0.66 + 0.66 * static_cast<double>(random_.Next() >> 11) * 0x1p-53;
      Apply(static_cast<float>((0.5 + 1.8 * std::exp(-static_cast<double>(step_) / 200)) * noise));
    }
  }

  DivergenceMonitor monitor;
  std::vector<std::string> found;
  std::vector<Finding> findings;

 private:
  void Observe(StepNumbers numbers) {
    numbers.step = ++step_;
    for (const Finding& finding : monitor.Observe(numbers)) {
      found.push_back(absl::StrCat(step_, ":", finding.attributes.at("rule")));
      findings.push_back(finding);
    }
  }

  const int hysteresis_;
  int64_t step_ = 0;
  SeededRandom random_{11};
};

TEST(DivergenceMonitor, AHealthyRunIsSilentAndCalm) {
  WatchedRun run;
  for (int i = 0; i < 100; ++i) {
    run.ApplyHealthy(50);
    run.Skip(0.5f, /*scale_moved=*/true);
    EXPECT_TRUE(run.monitor.calm());
  }
  EXPECT_THAT(run.found, IsEmpty());
}

// High losses in a GAN are not reported: a discriminator's loss falls to almost nothing, and rises again when the
// generator learns to deceive it.
TEST(DivergenceMonitor, HowHighAnAdversarialLossIsSaysNothing) {
  const auto losses_of = [](int step) { return step % 200 < 100 ? 0.01f : 9.0f; };
  WatchedRun gan;
  WatchedRun other;
  for (int step = 0; step < 1000; ++step) {
    gan.ApplyAdversarial(losses_of(step));
    other.Apply(losses_of(step));
  }
  EXPECT_THAT(gan.found, IsEmpty());
  EXPECT_TRUE(gan.monitor.calm());
  EXPECT_FALSE(other.found.empty());
  gan.ApplyAdversarial(kNan);
  EXPECT_THAT(gan.found, ElementsAre("1001:loss_not_finite"));
}

TEST(DivergenceMonitor, ALossThatFallsByOrdersOfMagnitudeIsNoWarning) {
  WatchedRun run;
  for (int step = 0; step < 300; ++step) {
    run.Apply(2.3f * std::exp(-0.05f * static_cast<float>(step)));
  }
  EXPECT_THAT(run.found, IsEmpty());
}

TEST(DivergenceMonitor, TenfoldNoiseFarBelowTheFirstLossesIsNoWarning) {
  WatchedRun run;
  run.ApplyHealthy(30);
  SeededRandom random(3);
  for (int step = 0; step < 1000; ++step) {
    run.Apply(random.Next() % 9 == 0 ? 0.02f : 1e-5f);
  }
  EXPECT_THAT(run.found, IsEmpty());
}

TEST(DivergenceMonitor, ASlowRiseOverTenfoldIsOneWarning) {
  WatchedRun run;
  for (int step = 0; step < 300; ++step) {
    run.Apply(0.1f * std::exp(0.03f * static_cast<float>(step)));
  }
  EXPECT_THAT(run.found, ElementsAre("78:loss_range")) << "0.03 * 77 is the first above ln 10";
  EXPECT_EQ(run.findings[0].kind, v1::Event::WARNING);
  EXPECT_EQ(run.findings[0].reason, v1::Reason::REASON_UNSPECIFIED);
}

TEST(DivergenceMonitor, ASpikeIsReportedOnceAndDisturbsUntilItIsOver) {
  WatchedRun run;
  run.ApplyHealthy(150);
  run.Apply(50);
  run.Apply(40);
  EXPECT_FALSE(run.monitor.calm()) << "no time for a checkpoint to go back to";
  run.ApplyHealthy(50);
  EXPECT_TRUE(run.monitor.calm());
  run.Apply(60);
  EXPECT_THAT(run.found, ElementsAre("151:loss_spike", "151:loss_range")) << "the second spike is within 100 steps";
  EXPECT_EQ(run.findings[0].kind, v1::Event::LOSS_SPIKE);
  run.ApplyHealthy(150);
  run.Apply(60);
  EXPECT_THAT(run.found, ElementsAre("151:loss_spike", "151:loss_range", "354:loss_spike", "354:loss_range"));
}

TEST(DivergenceMonitor, LossesFarAboveTheMedianThatComeNowAndThenAreNoSpikes) {
  WatchedRun run;
  for (int step = 0; step < 500; ++step) {
    run.Apply(step % 10 == 0 ? 3 : 0.1f);
  }
  EXPECT_THAT(run.found, ElementsAre("11:loss_range"));
}

TEST(DivergenceMonitor, ALossThatStaysFarAboveTheFirstOnesHasDiverged) {
  WatchedRun run;
  run.ApplyHealthy(150);
  for (int step = 0; step < 31; ++step) {
    run.Apply(30);
  }
  EXPECT_THAT(run.found, ElementsAre("151:loss_spike", "151:loss_range"));
  run.Apply(30);
  ASSERT_EQ(run.found.back(), "182:diverged");
  EXPECT_EQ(run.findings.back().kind, v1::Event::DIVERGENCE);
  EXPECT_EQ(run.findings.back().reason, v1::Reason::DIVERGED);
  EXPECT_EQ(run.findings.back().attributes.at("loss"), "30");
  const size_t before = run.found.size();
  for (int step = 0; step < 500; ++step) {
    run.Apply(30);
  }
  EXPECT_EQ(run.found.size(), before) << "said once";
}

TEST(DivergenceMonitor, ALongSpikeBelowTheFirstLossesIsNoDivergence) {
  WatchedRun run;
  for (int step = 0; step < 20; ++step) {
    run.Apply(8);
  }
  for (int step = 0; step < 200; ++step) {
    run.Apply(0.1f);
  }
  for (int step = 0; step < 99; ++step) {
    run.Apply(7);
    EXPECT_FALSE(run.monitor.calm());
  }
  run.Apply(7);
  EXPECT_TRUE(run.monitor.calm()) << "it is the level that the run has now: checkpoints are made again";
  EXPECT_THAT(run.found, ElementsAre("221:loss_spike", "221:loss_range"));
}

TEST(DivergenceMonitor, LossesThatRiseFromBelowZeroAreNoSpikes) {
  for (const float first : {-100.0f, -1.0f, -1e-6f, 0.0f}) {
    WatchedRun run;
    for (int step = 0; step < 20; ++step) {
      run.Apply(first);
    }
    for (int step = 0; step < 300; ++step) {
      run.Apply(0.5f + 0.01f * static_cast<float>(step));
      EXPECT_TRUE(run.monitor.calm());
    }
    EXPECT_THAT(run.found, IsEmpty()) << first;
  }
}

TEST(DivergenceMonitor, LossesThatFallOrRiseThroughZeroAreNoWarning) {
  for (const float slope : {-0.1f, 0.1f}) {
    WatchedRun run;
    for (int step = -200; step <= 200; ++step) {
      run.Apply(slope * static_cast<float>(step));
    }
    EXPECT_THAT(run.found, IsEmpty()) << slope;
  }
}

TEST(DivergenceMonitor, LossesThatGoBelowZeroAndComeBackAreNoWarning) {
  WatchedRun run;
  for (int step = 0; step < 600; ++step) {
    run.Apply(2.3f * std::cos(0.05f * static_cast<float>(step)));
  }
  EXPECT_THAT(run.found, IsEmpty());
}

TEST(DivergenceMonitor, ConstantLossesAreNoWarning) {
  for (const float loss : {-3.0f, 0.0f, 3.0f}) {
    WatchedRun run;
    for (int step = 0; step < 300; ++step) {
      run.Apply(loss);
    }
    EXPECT_THAT(run.found, IsEmpty()) << loss;
  }
}

TEST(DivergenceMonitor, AHundredLossesAfterTheLastNegativeOneSpikesAreFoundAgain) {
  WatchedRun run;
  run.ApplyHealthy(30);
  run.Apply(-1);
  for (int step = 0; step < 98; ++step) {
    run.Apply(1);
  }
  run.Apply(50);  // The negative loss is still one of the last 100.
  EXPECT_THAT(run.found, IsEmpty());
  for (int step = 0; step < 100; ++step) {
    run.Apply(1);
  }
  run.Apply(60);
  EXPECT_THAT(run.found, Contains("231:loss_spike"));
}

TEST(DivergenceMonitor, ALossThatIsNotFiniteIsADivergenceAtOnceWithoutScaling) {
  WatchedRun run;
  run.Apply(1);
  run.Apply(kNan);
  run.Apply(kNan);
  EXPECT_THAT(run.found, ElementsAre("2:loss_not_finite"));
  EXPECT_EQ(run.findings[0].reason, v1::Reason::NONFINITE_LOSS);
  run.Apply(1);
  run.Apply(std::numeric_limits<float>::infinity());
  EXPECT_THAT(run.found, ElementsAre("2:loss_not_finite", "5:loss_not_finite")) << "a finite one was between";
}

TEST(DivergenceMonitor, WithScalingALossThatIsNotFiniteIsAnAccidentUntilTwentyInARow) {
  WatchedRun run;
  for (int round = 0; round < 5; ++round) {
    for (int step = 0; step < 19; ++step) {
      run.Skip(kNan, /*scale_moved=*/true);
    }
    run.Skip(1, /*scale_moved=*/true);
  }
  EXPECT_THAT(run.found, IsEmpty());
  for (int step = 0; step < 500; ++step) {
    run.Skip(kNan, /*scale_moved=*/step < 100);
  }
  EXPECT_THAT(run.found, ElementsAre("120:loss_not_finite", "200:skipped_share"))
      << "that the scale is stuck in the end follows from it";
}

TEST(DivergenceMonitor, AScaleThatOnlySkipsAndDoesNotMoveIsADivergence) {
  WatchedRun run(/*hysteresis=*/3);
  for (int step = 0; step < 103; ++step) {
    run.Skip(1, /*scale_moved=*/false);
  }
  EXPECT_THAT(run.found, ElementsAre("103:scale_stuck"));
  EXPECT_EQ(run.findings[0].reason, v1::Reason::LOSS_SCALE_COLLAPSED);
  EXPECT_THAT(run.findings[0].message,
              HasSubstr("the last 103 steps were all skipped, and the loss scale stayed at 64"));
}

TEST(DivergenceMonitor, TheLargestHysteresisIsNoStuckScale) {
  WatchedRun run(/*hysteresis=*/std::numeric_limits<int>::max());
  run.Apply(1);
  for (int step = 0; step < 150; ++step) {
    run.Skip(1, /*scale_moved=*/false);
  }
  EXPECT_THAT(run.found, IsEmpty());
}

TEST(DivergenceMonitor, WithoutScalingTwentySkippedStepsInARowAreADivergenceOfGradients) {
  WatchedRun run;
  for (int round = 0; round < 5; ++round) {
    for (int step = 0; step < 19; ++step) {
      run.SkipUnscaled(1);
    }
    run.Apply(1);
  }
  EXPECT_THAT(run.found, IsEmpty());
  for (int step = 0; step < 20; ++step) {
    run.SkipUnscaled(1);
  }
  EXPECT_THAT(run.found, ElementsAre("120:gradients_not_finite"));
  EXPECT_EQ(run.findings[0].reason, v1::Reason::NONFINITE_GRADIENTS);
  EXPECT_THAT(run.findings[0].message,
              HasSubstr("the last 20 steps were all skipped, because their gradients are not"));
  EXPECT_THAT(run.findings[0].message, testing::Not(HasSubstr("scale")));
}

TEST(DivergenceMonitor, TheFloorIsReportedOnceUntilTheScaleMoves) {
  WatchedRun run;
  run.Skip(1, false, /*at_floor=*/true);
  run.Apply(1);
  run.Skip(1, false, /*at_floor=*/true);
  run.Skip(1, /*scale_moved=*/true);
  run.Skip(1, false, /*at_floor=*/true);
  EXPECT_THAT(run.found, ElementsAre("1:scale_floor", "5:scale_floor"));
}

TEST(DivergenceMonitor, OverAQuarterOfSkippedStepsIsAWarning) {
  WatchedRun run;
  for (int step = 0; step < 400; ++step) {
    step % 4 == 0 ? run.Skip(1, true) : run.Apply(1);
  }
  EXPECT_THAT(run.found, IsEmpty()) << "a quarter is not over it";
  for (int step = 0; step < 400; ++step) {
    step % 3 == 0 ? run.Skip(1, true) : run.Apply(1);
  }
  ASSERT_EQ(run.found.size(), 1u);
  EXPECT_THAT(run.found[0], HasSubstr(":skipped_share"));
}

// Returns arbitrary numbers of a step.
StepNumbers RandomNumbers(SeededRandom& random, int64_t step) {
  StepNumbers numbers{.step = step};
  const uint64_t kind = random.Next() % 20;
  const float noise = static_cast<float>(random.Next() >> 40) * 0x1p-24f;
  numbers.loss = kind == 0 ? kNan : kind == 1 ? 100 * noise : kind == 2 ? 0 : 0.1f + noise;
  numbers.grad_norm = noise;
  numbers.run.scaling =
      random.Next() % 4 != 0 ? precision::LossScaleConfig::Kind::kDynamic : precision::LossScaleConfig::Kind::kOff;
  numbers.skipped = random.Next() % 5 == 0;
  numbers.scale_moved = numbers.skipped && random.Next() % 2 == 0;
  numbers.at_floor = numbers.skipped && !numbers.scale_moved && random.Next() % 2 == 0;
  return numbers;
}

TEST(DivergenceMonitorProperties, AStateThatMovedGoesOnTheSame) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom random(seed);
    DivergenceMonitor whole;
    DivergenceMonitor moved;
    for (int64_t step = 1; step <= 1000; ++step) {
      if (random.Next() % 50 == 0) {
        const MonitorState state = moved.state();
        moved.Restore({});
        moved.Restore(state);
      }
      const StepNumbers numbers = RandomNumbers(random, step);
      const std::vector<Finding> expected = whole.Observe(numbers);
      const std::vector<Finding> actual = moved.Observe(numbers);
      ASSERT_EQ(actual.size(), expected.size()) << "seed " << seed << " step " << step;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(actual[i].message, expected[i].message);
        ASSERT_EQ(actual[i].attributes, expected[i].attributes);
      }
      ASSERT_EQ(moved.state(), whole.state()) << "seed " << seed << " step " << step;
    }
  }
}

TEST(DivergenceMonitorProperties, WhateverComesTheWindowsAreBoundedAndNoRuleSpeaksTwiceInARow) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SeededRandom random(seed);
    DivergenceMonitor monitor;
    std::map<std::string, int64_t> told;
    for (int64_t step = 1; step <= 1000; ++step) {
      for (const Finding& finding : monitor.Observe(RandomNumbers(random, step))) {
        const std::string& rule = finding.attributes.at("rule");
        EXPECT_TRUE(told.count(rule) == 0 || told[rule] + 1 < step) << rule << " seed " << seed << " step " << step;
        EXPECT_EQ(finding.reason != v1::Reason::REASON_UNSPECIFIED, finding.kind == v1::Event::DIVERGENCE);
        EXPECT_FALSE(finding.message.empty());
        told[rule] = step;
      }
      ASSERT_LE(monitor.state().losses.size(), 100u);
      ASSERT_LE(monitor.state().skips.size(), 200u);
      for (const float loss : monitor.state().losses) {
        ASSERT_TRUE(std::isfinite(loss));
      }
    }
  }
}

}  // namespace
}  // namespace ampd::train
