#include "worker/train/health/numeric_verdict.h"

#include "absl/strings/str_cat.h"

namespace ampd::train {
namespace {

using Scaling = precision::LossScaleConfig::Kind;

constexpr char kWider[] = "use a preset of bf16 or fp32";

std::string SmallerUpdates(const RunFacts& facts) {
  return absl::StrCat("lower the learning rate or ", facts.clips ? "" : "set ", "train.clip_grad_norm");
}

// Suggests a wider format, but only if fp32 has a wider range than what the run computes in.
std::string OrWider(const RunFacts& facts) { return facts.has_narrow_range ? absl::StrCat(", or ", kWider) : ""; }

Verdict NoLabelCounts() {
  return {v1::DATA_ERROR,
          "the loss ignores every label of the batch, and a mean over none is no number: leave out samples whose "
          "labels are all ignored, or use larger batches"};
}

// Advice for finite inputs that the forward pass makes non-finite.
std::string LookAtForwardPass(const RunFacts& facts) {
  return facts.has_narrow_range
             ? absl::StrCat("a number of the forward pass is beyond its format (float16 ends at 65504): ", kWider,
                            ", or bring the inputs nearer to 1")
             : "the forward pass overflows or divides by zero: bring the inputs nearer to 1, and look at the model's "
               "divisions, roots, logarithms and exponentials";
}

Verdict JudgeLoss(const RunFacts& facts) {
  if (facts.ignores_all_labels) {
    return NoLabelCounts();
  }
  return {v1::NONFINITE_LOSS,
          facts.was_updated
              ? SmallerUpdates(facts) + OrWider(facts)
              : absl::StrCat("no update came before it, and weights and data are finite; ", LookAtForwardPass(facts))};
}

// Advice for gradients that no loss scale makes finite.
std::string LookAtBackwardPass(const RunFacts& facts) {
  const std::string where = facts.module.empty() ? "" : absl::StrCat(", where it comes to ", facts.module, ",");
  const std::string range = facts.has_narrow_range ? absl::StrCat(kWider, ", and ") : "";
  const std::string rate = facts.was_updated ? ", or " + SmallerUpdates(facts) : "";
  return absl::StrCat("the backward pass", where, " overflows or divides by zero: ", range,
                      "look at the roots, norms and divisions there, whose gradient at 0 is not finite", rate);
}

// Whether a lower scale could make the gradients finite.
bool MayBlameScale(const RunFacts& facts) { return facts.scaling != Scaling::kOff && facts.loss_scale > 1; }

Verdict JudgeGradients(const RunFacts& facts) {
  const v1::Reason reason = facts.scaling == Scaling::kOff ? v1::NONFINITE_GRADIENTS : v1::LOSS_SCALE_COLLAPSED;
  if (!MayBlameScale(facts)) {
    return {reason, LookAtBackwardPass(facts)};
  }
  if (facts.scaling == Scaling::kStatic) {
    return {reason, "lower precision.loss_scale.fixed.scale, or let the loss scale be dynamic"};
  }
  return {reason, facts.at_floor ? absl::StrCat("lower precision.loss_scale.dynamic.floor", OrWider(facts))
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
  return {v1::LOSS_SCALE_COLLAPSED,
          "begin with a lower precision.loss_scale.dynamic.initial, or let more steps find a loss scale"};
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
      return {v1::DIVERGED, SmallerUpdates(facts)};
    case Symptom::kEvaluationLoss:
      return facts.ignores_all_labels
                 ? NoLabelCounts()
                 : Verdict{v1::NONFINITE_LOSS,
                           absl::StrCat("weights, running statistics and data are finite; ", LookAtForwardPass(facts))};
    case Symptom::kParameter:
      return {v1::NONFINITE_STATE, SmallerUpdates(facts) + OrWider(facts)};
    case Symptom::kAverage:
      return {v1::NONFINITE_STATE,
              absl::StrCat("the parameters are beyond what fp32 can average: ", SmallerUpdates(facts))};
    case Symptom::kStatistic:
      return {v1::NONFINITE_STATE,
              absl::StrCat("what the norm takes overflows, though the loss stays finite; ", LookAtForwardPass(facts))};
    case Symptom::kMoment:
      return {v1::REASON_UNSPECIFIED,
              absl::StrCat("gradients were beyond what the optimizer can keep, and such elements are not updated any "
                           "more; ",
                           facts.clips ? "lower" : "set", " train.clip_grad_norm")};
  }
  return {};
}

}  // namespace ampd::train
