#include "worker/train/health/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ampd::train {
namespace {

using precision::LossScaleConfig;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using v1::JobSpec;

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

v1::Device Gpu() {
  v1::Device device;
  device.set_kind(v1::Device::GPU);
  device.set_capability_major(9);
  return device;
}

// Returns a policy that computes in the format `compute`, with a dynamic loss scale.
precision::ResolvedPolicy Policy(graph::Dtype compute,
                                 LossScaleConfig::AtFloor at_floor = LossScaleConfig::AtFloor::kClamp) {
  precision::ResolvedPolicy policy;
  policy.formats.compute = compute;
  policy.loss_scale.kind = LossScaleConfig::Kind::kDynamic;
  policy.loss_scale.at_floor = at_floor;
  return policy;
}

const graph::Dtype kFp16 = graph::Dtype::kFloat16;
const graph::Dtype kFp32 = graph::Dtype::kFloat32;

// Returns the numbers of an applied step in a run with a dynamic loss scale.
StepNumbers Applied(float loss = 1) {
  return {.loss = loss, .grad_norm = 1, .loss_scale = 64, .run = {.scaling = LossScaleConfig::Kind::kDynamic}};
}

// Returns the numbers of an applied step whose loss is not finite.
StepNumbers Diverged(const std::string& module = "") {
  StepNumbers numbers = Applied(kNotANumber);
  numbers.run.loss_is_finite = false;
  numbers.run.was_updated = true;
  numbers.run.module = module;
  return numbers;
}

StepNumbers IgnoresAllLabels() {
  StepNumbers numbers = Diverged();
  numbers.run.ignores_all_labels = true;
  return numbers;
}

// Returns the numbers of a step that was skipped because its gradients overflowed, after which the loss scale fell.
StepNumbers BackedOff() {
  StepNumbers numbers = Applied();
  numbers.grad_norm = kNotANumber;
  numbers.skipped = numbers.scale_moved = numbers.backed_off = true;
  return numbers;
}

StepNumbers AtFloor() {
  StepNumbers numbers = Applied();
  numbers.skipped = numbers.at_floor = numbers.run.at_floor = true;
  numbers.next_loss_scale = numbers.loss_scale = numbers.run.loss_scale = 1;
  return numbers;
}

// Returns a text such as "fail NONFINITE_LOSS", "roll back, in bf16" or "raise, in bf16".
std::string TextOf(const Decision& decision, const Recovery& recovery) {
  const std::string raise = Describe(recovery.state().raise);
  switch (decision.action) {
    case Decision::Action::kContinue:
      return "continue";
    case Decision::Action::kReplay:
      return "replay";
    case Decision::Action::kRollBack:
      return absl::StrCat("roll back", decision.is_wider ? ", " : "", decision.is_wider ? raise : "");
    case Decision::Action::kRaise:
      return absl::StrCat("raise, ", raise);
    case Decision::Action::kLower:
      return absl::StrCat("lower from ", Describe(decision.lowered), " after ", decision.num_quiet_steps);
    case Decision::Action::kFail:
      return absl::StrCat("fail ", v1::Reason::Code_Name(decision.reason));
  }
  return "?";
}

Recovery With(JobSpec::OnDivergence on_divergence, int64_t lower_again_after_steps = 0, bool replay_skipped = false) {
  return Recovery({.on_divergence = on_divergence,
                   .lower_again_after_steps = lower_again_after_steps,
                   .replay_skipped = replay_skipped,
                   .device = Gpu()});
}

struct Situation {
  std::string name;
  JobSpec::OnDivergence on_divergence;
  bool replays;
  precision::ResolvedPolicy policy;
  StepNumbers numbers;
  std::string decision;
  friend void PrintTo(const Situation& situation, std::ostream* out) { *out << situation.name; }
};

class OneStep : public testing::TestWithParam<Situation> {};

TEST_P(OneStep, DecidesByTheTable) {
  Recovery recovery = With(GetParam().on_divergence, 0, GetParam().replays);
  const Decision decision = recovery.AfterStep(GetParam().numbers, GetParam().policy);
  EXPECT_EQ(TextOf(decision, recovery), GetParam().decision);
}

const LossScaleConfig::AtFloor kFallBack = LossScaleConfig::AtFloor::kFallBack;
const LossScaleConfig::AtFloor kFail = LossScaleConfig::AtFloor::kFail;

INSTANTIATE_TEST_SUITE_P(
    Recovery, OneStep,
    testing::Values(
        Situation{"HealthyStep", JobSpec::FAIL, true, Policy(kFp16), Applied(), "continue"},
        Situation{"SkippedStep", JobSpec::FAIL, false, Policy(kFp16), BackedOff(), "continue"},
        Situation{"SkippedStepOfAReplayingJob", JobSpec::FAIL, true, Policy(kFp16), BackedOff(), "replay"},
        Situation{"DivergenceFails", JobSpec::FAIL, false, Policy(kFp16), Diverged(), "fail NONFINITE_LOSS"},
        Situation{"DivergenceByDefaultFails", JobSpec::ON_DIVERGENCE_UNSPECIFIED, false, Policy(kFp16), Diverged(),
                  "fail NONFINITE_LOSS"},
        Situation{"DivergenceWarns", JobSpec::WARN, false, Policy(kFp16), Diverged(), "continue"},
        Situation{"DivergenceRollsBack", JobSpec::ROLL_BACK, false, Policy(kFp16), Diverged(), "roll back"},
        Situation{"DivergenceRaises", JobSpec::ROLL_BACK_AND_RAISE_PRECISION, false, Policy(kFp16), Diverged(),
                  "roll back, in bf16"},
        Situation{"NonFiniteLossBlamesNoModule", JobSpec::ROLL_BACK_AND_RAISE_PRECISION, false, Policy(kFp16),
                  Diverged("head"), "roll back, in bf16"},
        Situation{"NothingIsWiderThanFp32", JobSpec::ROLL_BACK_AND_RAISE_PRECISION, false, Policy(kFp32), Diverged(),
                  "roll back"},
        Situation{"NoPrecisionHelpsBadData", JobSpec::ROLL_BACK_AND_RAISE_PRECISION, false, Policy(kFp16),
                  IgnoresAllLabels(), "roll back"},
        Situation{"FloorClamps", JobSpec::FAIL, true, Policy(kFp16), AtFloor(), "continue"},
        Situation{"FloorFails", JobSpec::FAIL, false, Policy(kFp16, kFail), AtFloor(), "fail LOSS_SCALE_COLLAPSED"},
        Situation{"FloorRaises", JobSpec::FAIL, false, Policy(kFp16, kFallBack), AtFloor(), "raise, in bf16"},
        Situation{"FloorInFp32Fails", JobSpec::WARN, false, Policy(kFp32, kFallBack), AtFloor(),
                  "fail LOSS_SCALE_COLLAPSED"}),
    [](const auto& info) { return info.param.name; });

TEST(Recovery, DivergenceIsReportedAndNothingAfterIt) {
  Recovery recovery = With(JobSpec::WARN);
  const Decision decision = recovery.AfterStep(Diverged(), Policy(kFp16));
  ASSERT_EQ(decision.findings.size(), 1u);
  EXPECT_TRUE(decision.has_diverged());
  EXPECT_EQ(decision.findings[0].attributes.at("rule"), "loss_not_finite");
}

TEST(Recovery, GradientsThatStayNonFinite_RaiseTheModuleWhereTheyOverflow) {
  Recovery recovery = With(JobSpec::ROLL_BACK_AND_RAISE_PRECISION);
  StepNumbers stuck = Applied();
  stuck.grad_norm = kNotANumber;
  stuck.skipped = true;
  stuck.run.module = "head";
  Decision decision;
  int num_steps = 0;
  while (decision.action == Decision::Action::kContinue && num_steps < 200) {
    decision = recovery.AfterStep(stuck, Policy(kFp16));
    ++num_steps;
  }
  EXPECT_EQ(num_steps, 101) << "100 steps, and one that the hysteresis tolerates";
  EXPECT_EQ(TextOf(decision, recovery), "roll back, with head in fp32");
  EXPECT_EQ(decision.rule, "scale_stuck");
}

TEST(Recovery, AfterThreeRollBacks_Fails) {
  Recovery recovery = With(JobSpec::ROLL_BACK);
  std::vector<std::string> decisions;
  for (int i = 0; i < 4; ++i) {
    const Decision decision = recovery.AfterStep(Diverged(), Policy(kFp16));
    decisions.push_back(TextOf(decision, recovery));
    recovery.Rewind({}, /*num_replays=*/0);
    if (i == 3) {
      EXPECT_THAT(decision.message, HasSubstr("already rolled back 3 times"));
    }
  }
  EXPECT_THAT(decisions, ElementsAre("roll back", "roll back", "roll back", "fail NONFINITE_LOSS"));
  EXPECT_EQ(recovery.state().num_rollbacks, 3);
}

TEST(Recovery, ABatchIsReplayedEightTimesInARow) {
  Recovery recovery = With(JobSpec::FAIL, 0, /*replay_skipped=*/true);
  std::string decisions;
  for (int i = 0; i < 18; ++i) {
    decisions += recovery.AfterStep(BackedOff(), Policy(kFp16)).action == Decision::Action::kReplay ? 'r' : '.';
  }
  EXPECT_EQ(decisions, "rrrrrrrr.rrrrrrrr.");
  recovery.Rewind({}, /*num_replays=*/7);
  EXPECT_EQ(recovery.AfterStep(BackedOff(), Policy(kFp16)).action, Decision::Action::kReplay);
  EXPECT_EQ(recovery.AfterStep(BackedOff(), Policy(kFp16)).action, Decision::Action::kContinue);
}

TEST(Recovery, OnlyABatchThatALowerScaleCanRepairIsReplayed) {
  const std::pair<const char*, void (*)(StepNumbers&)> cases[] = {
      {"the loss is not finite", [](StepNumbers& step) { step.loss = kNotANumber; }},
      {"the scale stayed", [](StepNumbers& step) { step.backed_off = step.scale_moved = false; }},
      {"the step was applied", [](StepNumbers& step) { step.skipped = false; }}};
  for (const auto& [what, change] : cases) {
    Recovery recovery = With(JobSpec::FAIL, 0, /*replay_skipped=*/true);
    StepNumbers step = BackedOff();
    change(step);
    EXPECT_EQ(recovery.AfterStep(step, Policy(kFp16)).action, Decision::Action::kContinue) << what;
    EXPECT_EQ(recovery.num_replays(), 0) << what;
  }
}

TEST(Recovery, AfterQuietSteps_TheRaiseIsRevertedAndCounted) {
  Recovery recovery = With(JobSpec::FAIL, /*lower_again_after_steps=*/3);
  EXPECT_FALSE(recovery.may_lower());
  ASSERT_EQ(recovery.AfterStep(AtFloor(), Policy(kFp16, kFallBack)).action, Decision::Action::kRaise);
  EXPECT_TRUE(recovery.may_lower());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(TextOf(recovery.BeforeStep(), recovery), "continue") << i;
    recovery.AfterStep(Applied(), Policy(graph::Dtype::kBFloat16));
  }
  EXPECT_EQ(TextOf(recovery.BeforeStep(), recovery), "lower from in bf16 after 3");
  EXPECT_EQ(recovery.state(), (RecoveryState{.num_lowerings = 1}));
  EXPECT_EQ(TextOf(recovery.BeforeStep(), recovery), "continue");
}

TEST(Recovery, AFindingRestartsTheQuietPeriod) {
  Recovery recovery = With(JobSpec::WARN, /*lower_again_after_steps=*/3);
  recovery.Restore({.raise = {.preset = "bf16"}, .num_quiet_steps = 2});
  recovery.AfterStep(Diverged(), Policy(kFp16));
  EXPECT_EQ(recovery.state().num_quiet_steps, 0);
  EXPECT_EQ(recovery.BeforeStep().action, Decision::Action::kContinue);
}

TEST(Recovery, RaisesAndLoweringsEnd) {
  for (const auto& [rollbacks, lowerings, decision] :
       {std::tuple(2, 0, "lower from in bf16 after 5"), {3, 0, "continue"}, {1, 2, "continue"}}) {
    Recovery recovery = With(JobSpec::ROLL_BACK, /*lower_again_after_steps=*/5);
    recovery.Restore(
        {.num_rollbacks = rollbacks, .num_lowerings = lowerings, .raise = {.preset = "bf16"}, .num_quiet_steps = 5});
    EXPECT_EQ(TextOf(recovery.BeforeStep(), recovery), decision) << rollbacks << " " << lowerings;
  }
}

TEST(Recovery, Rewind_KeepsTheCountsAndTheRaise) {
  Recovery recovery = With(JobSpec::ROLL_BACK_AND_RAISE_PRECISION);
  recovery.AfterStep(Diverged(), Policy(kFp16));
  EXPECT_FALSE(recovery.calm());
  const RecoveryState state = recovery.state();
  recovery.Rewind({}, /*num_replays=*/0);
  EXPECT_TRUE(recovery.calm());
  EXPECT_EQ(recovery.monitor(), MonitorState());
  EXPECT_EQ(recovery.state(), state);
  EXPECT_EQ(state.raise.preset, "bf16");
}

TEST(Recovery, ANonFiniteTensor_EndsTheRunByItsSymptom) {
  const std::tuple<Symptom, JobSpec::OnDivergence, const char*> cases[] = {
      {Symptom::kParameter, JobSpec::FAIL, "fail NONFINITE_STATE"},
      {Symptom::kParameter, JobSpec::ROLL_BACK, "roll back"},
      {Symptom::kParameter, JobSpec::WARN, "continue"},
      {Symptom::kMoment, JobSpec::FAIL, "continue"},
      {Symptom::kMoment, JobSpec::ROLL_BACK, "continue"}};
  for (const auto& [symptom, on_divergence, text] : cases) {
    Recovery recovery = With(on_divergence);
    const Decision decision = recovery.OnNonFiniteState(
        {.symptom = symptom, .description = "head.weight is not finite", .tensor = "head.weight", .count = 3}, 7, {},
        Policy(kFp16));
    EXPECT_EQ(TextOf(decision, recovery), text);
    ASSERT_EQ(decision.findings.size(), 1u);
    EXPECT_THAT(decision.findings[0].message, HasSubstr("at step 7 head.weight is not finite: "));
    EXPECT_EQ(decision.findings[0].attributes.at("count"), "3");
  }
}

TEST(Recovery, NothingTrained_FailsByTheLastStepOrWarns) {
  Recovery fails = With(JobSpec::ROLL_BACK);
  fails.AfterStep(Applied(), Policy(kFp16));
  const RunFacts before_any_step = {.scaling = LossScaleConfig::Kind::kOff};
  const Decision decision = fails.OnNothingTrained(12, before_any_step);
  EXPECT_EQ(TextOf(decision, fails), "fail LOSS_SCALE_COLLAPSED");
  EXPECT_THAT(decision.message, HasSubstr("all 12 steps were skipped"));
  const Recovery fresh = With(JobSpec::FAIL);
  EXPECT_EQ(TextOf(fresh.OnNothingTrained(12, before_any_step), fresh), "fail NONFINITE_GRADIENTS");
  const Recovery warns = With(JobSpec::WARN);
  const Decision warning = warns.OnNothingTrained(12, before_any_step);
  EXPECT_EQ(TextOf(warning, warns), "continue");
  ASSERT_EQ(warning.findings.size(), 1u);
  EXPECT_EQ(warning.findings[0].kind, v1::Event::DIVERGENCE);
  EXPECT_FALSE(warning.has_diverged());
}

}  // namespace
}  // namespace ampd::train
