#include "worker/train/health/numeric_verdict.h"

#include "absl/strings/str_cat.h"

namespace ampd::train {
namespace {

using Scaling = precision::LossScaleConfig::Kind;

constexpr char kWider[] = "use a preset of bf16 or fp32";

std::string SmallerUpdates(const RunFacts& facts) {
  return absl::StrCat("lower the learning rate or ", facts.clips ? "" : "set ", "train.clip_grad_norm");
}

// Text that suggests a wider format. Empty if the run's formats already have the range of fp32.
std::string OrWider(const RunFacts& facts) { return facts.has_narrow_range ? absl::StrCat(", or ", kWider) : ""; }

Verdict NoLabelCounts() {
  return {v1::Reason::DATA_ERROR,
          "the loss ignores every label of the batch, and a mean over zero labels is NaN: leave out samples whose "
          "labels are all ignored, or use larger batches"};
}

// Advice for finite inputs that the forward pass makes non-finite.
std::string LookAtForwardPass(const RunFacts& facts) {
  if (facts.has_narrow_range && !facts.fault_is_wide) {
    return absl::StrCat(
        "a number in the forward pass is too large for its format (the largest number of float16 is 65504): ", kWider,
        ", or scale the inputs closer to 1");
  }
  return absl::StrCat(
      "the forward pass overflows or divides by zero: scale the inputs closer to 1, and look at the model's divisions, "
      "roots, logarithms and exponentials",
      facts.has_narrow_range ? absl::StrCat("; if float16 has rounded their inputs to 0, ", kWider) : "");
}

Verdict JudgeLoss(const RunFacts& facts) {
  if (facts.ignores_all_labels) {
    return NoLabelCounts();
  }
  return {v1::Reason::NONFINITE_LOSS,
          facts.was_updated ? SmallerUpdates(facts) + OrWider(facts)
                            : absl::StrCat("weights and data are finite, and no step has changed the weights yet; ",
                                           LookAtForwardPass(facts))};
}

// Advice for gradients that no loss scale makes finite.
std::string LookAtBackwardPass(const RunFacts& facts) {
  return absl::StrCat("the backward pass overflows or divides by zero",
                      facts.module.empty() ? "" : absl::StrCat(" in module ", facts.module), ": ",
                      facts.has_narrow_range ? absl::StrCat(kWider, ", and ") : "",
                      "look for roots, vector norms and divisions (their gradients at 0 are not finite)",
                      facts.was_updated ? absl::StrCat("; if there are none, ", SmallerUpdates(facts)) : "");
}

// Whether the loss scale may be too high, so that a lower one could make the gradients finite.
bool MayBlameScale(const RunFacts& facts) { return facts.scaling != Scaling::kOff && facts.loss_scale > 1; }

Verdict JudgeGradients(const RunFacts& facts) {
  const v1::Reason::Code reason =
      facts.scaling == Scaling::kOff ? v1::Reason::NONFINITE_GRADIENTS : v1::Reason::LOSS_SCALE_COLLAPSED;
  if (!MayBlameScale(facts)) {
    return {reason, LookAtBackwardPass(facts)};
  }
  if (facts.scaling == Scaling::kStatic) {
    return {reason, "set precision.loss_scale.static.scale to a lower value, or use a dynamic loss scale"};
  }
  return {reason, facts.at_floor
                      ? absl::StrCat("set precision.loss_scale.dynamic.floor to a lower value", OrWider(facts))
                      : "set a lower loss scale (ampctl job scale)"};
}

Verdict JudgeUntrained(RunFacts facts) {
  facts.was_updated = false;
  if (!facts.loss_is_finite || facts.ignores_all_labels) {
    return JudgeLoss(facts);
  }
  if (facts.scaling != Scaling::kDynamic || !MayBlameScale(facts)) {
    return JudgeGradients(facts);
  }
  return {v1::Reason::LOSS_SCALE_COLLAPSED,
          "set precision.loss_scale.dynamic.initial to a lower value, or train for more steps, so that the loss scale "
          "can fall"};
}

}  // namespace

Verdict JudgeNumbers(Symptom symptom, const RunFacts& facts) {
  switch (symptom) {
    case Symptom::kLoss:
      return JudgeLoss(facts);
    case Symptom::kGradients:
      return JudgeGradients(facts);
    case Symptom::kNothingApplied:
      return JudgeUntrained(facts);
    case Symptom::kHighLoss:
      return {v1::Reason::DIVERGED, SmallerUpdates(facts)};
    case Symptom::kEvaluationLoss:
      return facts.ignores_all_labels
                 ? NoLabelCounts()
                 : Verdict{v1::Reason::NONFINITE_LOSS,
                           absl::StrCat("weights, running statistics and data are finite; ", LookAtForwardPass(facts))};
    case Symptom::kParameter:
      return {v1::Reason::NONFINITE_STATE, SmallerUpdates(facts) + OrWider(facts)};
    case Symptom::kAverage:
      return {v1::Reason::NONFINITE_STATE,
              absl::StrCat("the parameters have become so large that their moving averages overflow fp32: ",
                           SmallerUpdates(facts))};
    case Symptom::kStatistic:
      return {v1::Reason::NONFINITE_STATE,
              absl::StrCat("the inputs of this norm layer overflow, although the loss is finite; ",
                           LookAtForwardPass(facts))};
    case Symptom::kMoment:
      return {v1::Reason::REASON_UNSPECIFIED,
              absl::StrCat("gradients were so large that elements of the optimizer's moments became infinite; the "
                           "parameter elements with these moments are never updated again; ",
                           facts.clips ? "lower" : "set", " train.clip_grad_norm")};
  }
  return {};
}

}  // namespace ampd::train
