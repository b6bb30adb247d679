#include "worker/train/health/numeric_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ampd::train {
namespace {

using Scaling = precision::LossScaleConfig::Kind;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Symptom kSymptoms[] = {Symptom::kLoss,      Symptom::kGradients,      Symptom::kNothingApplied,
                                 Symptom::kHighLoss,  Symptom::kEvaluationLoss, Symptom::kParameter,
                                 Symptom::kStatistic, Symptom::kAverage,        Symptom::kMoment};

// Returns whether only an update of the parameters can cause the symptom.
bool NeedsUpdate(Symptom symptom) {
  return symptom == Symptom::kHighLoss || symptom == Symptom::kParameter || symptom == Symptom::kAverage ||
         symptom == Symptom::kMoment;
}

std::vector<RunFacts> AllFacts() {
  std::vector<RunFacts> all;
  for (const Scaling scaling : {Scaling::kOff, Scaling::kStatic, Scaling::kDynamic}) {
    for (int bits = 0; bits < 256; ++bits) {
      all.push_back({.scaling = scaling,
                     .loss_scale = scaling != Scaling::kOff && (bits & 1) != 0 ? 65536.0F : 1.0F,
                     .at_floor = scaling == Scaling::kDynamic && (bits & 2) != 0,
                     .has_narrow_range = (bits & 4) != 0,
                     .fault_is_wide = (bits & 128) != 0,
                     .was_updated = (bits & 8) != 0,
                     .clips = (bits & 16) != 0,
                     .loss_is_finite = (bits & 32) == 0,
                     .ignores_all_labels = (bits & 64) != 0,
                     .module = "head"});
    }
  }
  return all;
}

std::string Text(Symptom symptom, const RunFacts& facts) {
  return absl::StrCat("symptom ", static_cast<int>(symptom), " scaling ", static_cast<int>(facts.scaling), " at ",
                      facts.loss_scale, " floor ", facts.at_floor, " narrow ", facts.has_narrow_range, " wide ",
                      facts.fault_is_wide, " updated ", facts.was_updated, " clips ", facts.clips, " finite ",
                      facts.loss_is_finite, " ignores ", facts.ignores_all_labels, ": ",
                      JudgeNumbers(symptom, facts).advice);
}

TEST(JudgeNumbers, NothingIsBlamedThatTheRunDoesNotHave) {
  for (const Symptom symptom : kSymptoms) {
    for (const RunFacts& facts : AllFacts()) {
      const auto [reason, advice] = JudgeNumbers(symptom, facts);
      const std::string text = Text(symptom, facts);
      EXPECT_FALSE(advice.empty()) << text;
      if (facts.scaling == Scaling::kOff) {
        EXPECT_NE(reason, v1::Reason::LOSS_SCALE_COLLAPSED) << text;
        EXPECT_THAT(advice, Not(AnyOf(HasSubstr("loss scale"), HasSubstr("loss_scale")))) << text;
      } else {
        EXPECT_NE(reason, v1::Reason::NONFINITE_GRADIENTS) << text;
      }
      if (!facts.was_updated && !NeedsUpdate(symptom)) {
        EXPECT_THAT(advice, Not(HasSubstr("learning rate"))) << text;
      }
      if (!facts.has_narrow_range) {
        EXPECT_THAT(advice, Not(HasSubstr("bf16 or fp32"))) << text;
      }
      if (!facts.has_narrow_range || facts.fault_is_wide) {
        EXPECT_THAT(advice, Not(HasSubstr("65504"))) << text;
      }
      if (facts.clips) {
        EXPECT_THAT(advice, Not(HasSubstr("set train.clip_grad_norm"))) << text;
      }
      if (facts.loss_scale <= 1) {
        EXPECT_THAT(advice, Not(HasSubstr("precision.loss_scale"))) << text;
      }
    }
  }
}

TEST(JudgeNumbers, TheReasonIsThatOfTheSymptomAndTheFacts) {
  const RunFacts fp32 = {.was_updated = true};
  const RunFacts fp16 = {
      .scaling = Scaling::kDynamic, .loss_scale = 65536, .has_narrow_range = true, .was_updated = true};
  const RunFacts fixed = {.scaling = Scaling::kStatic, .loss_scale = 1024, .has_narrow_range = true};
  const RunFacts fresh = {};
  RunFacts fresh_fp16 = fp16;
  fresh_fp16.was_updated = false;
  RunFacts floor = fp16;
  floor.at_floor = true;
  RunFacts unscaled_fp16 = fresh_fp16;
  unscaled_fp16.scaling = Scaling::kOff;
  unscaled_fp16.loss_scale = 1;
  RunFacts ignores = fp16;
  ignores.ignores_all_labels = true;
  RunFacts nan_loss = fresh_fp16;
  nan_loss.loss_is_finite = false;
  RunFacts nan_in_fp32 = nan_loss;
  nan_in_fp32.fault_is_wide = true;
  const struct {
    Symptom symptom;
    RunFacts facts;
    v1::Reason::Code reason;
    const char* advice;
  } rows[] = {
      {Symptom::kLoss, fp32, v1::Reason::NONFINITE_LOSS, "lower the learning rate or set train.clip_grad_norm"},
      {Symptom::kLoss, fp16, v1::Reason::NONFINITE_LOSS, "train.clip_grad_norm, or use a preset of bf16 or fp32"},
      {Symptom::kLoss, fresh, v1::Reason::NONFINITE_LOSS,
       "weights and data are finite, and no step has changed the weights yet"},
      {Symptom::kLoss, fresh_fp16, v1::Reason::NONFINITE_LOSS, "the largest number of float16 is 65504"},
      {Symptom::kLoss, nan_in_fp32, v1::Reason::NONFINITE_LOSS,
       "logarithms and exponentials; if float16 has rounded their inputs to 0, use a preset of bf16 or fp32"},
      {Symptom::kLoss, ignores, v1::Reason::DATA_ERROR, "ignores every label"},
      {Symptom::kGradients, fresh, v1::Reason::NONFINITE_GRADIENTS, "look for roots, vector norms and divisions"},
      {Symptom::kGradients, unscaled_fp16, v1::Reason::NONFINITE_GRADIENTS, "use a preset of bf16 or fp32"},
      {Symptom::kGradients, fixed, v1::Reason::LOSS_SCALE_COLLAPSED,
       "set precision.loss_scale.static.scale to a lower value"},
      {Symptom::kGradients, fp16, v1::Reason::LOSS_SCALE_COLLAPSED, "set a lower loss scale (ampctl job scale)"},
      {Symptom::kGradients, floor, v1::Reason::LOSS_SCALE_COLLAPSED,
       "set precision.loss_scale.dynamic.floor to a lower value"},
      {Symptom::kNothingApplied, fresh, v1::Reason::NONFINITE_GRADIENTS, "look for roots, vector norms and divisions"},
      {Symptom::kNothingApplied, nan_loss, v1::Reason::NONFINITE_LOSS, "the largest number of float16 is 65504"},
      {Symptom::kNothingApplied, fresh_fp16, v1::Reason::LOSS_SCALE_COLLAPSED,
       "set precision.loss_scale.dynamic.initial to a lower value"},
      {Symptom::kNothingApplied, fixed, v1::Reason::LOSS_SCALE_COLLAPSED,
       "set precision.loss_scale.static.scale to a lower value"},
      {Symptom::kHighLoss, fp16, v1::Reason::DIVERGED, "lower the learning rate or set train.clip_grad_norm"},
      {Symptom::kEvaluationLoss, fp32, v1::Reason::NONFINITE_LOSS, "the forward pass overflows or divides by zero"},
      {Symptom::kEvaluationLoss, ignores, v1::Reason::DATA_ERROR, "ignores every label"},
      {Symptom::kParameter, fp32, v1::Reason::NONFINITE_STATE, "lower the learning rate"},
      {Symptom::kStatistic, fp16, v1::Reason::NONFINITE_STATE, "the inputs of this norm layer overflow"},
      {Symptom::kAverage, fp32, v1::Reason::NONFINITE_STATE, "lower the learning rate"},
      {Symptom::kMoment, fp32, v1::Reason::REASON_UNSPECIFIED, "set train.clip_grad_norm"},
  };
  for (const auto& row : rows) {
    const Verdict verdict = JudgeNumbers(row.symptom, row.facts);
    EXPECT_EQ(verdict.reason, row.reason) << Text(row.symptom, row.facts);
    EXPECT_THAT(verdict.advice, HasSubstr(row.advice)) << Text(row.symptom, row.facts);
  }
}

}  // namespace
}  // namespace ampd::train
