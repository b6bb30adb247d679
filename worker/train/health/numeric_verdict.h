#pragma once

#include <string>

#include "ampd/v1/job.pb.h"
#include "precision/loss_scale.h"

// Chooses the end reason and the advice for numbers that went wrong.
namespace ampd::train {

// Signs that a run's numbers are wrong.
enum class Symptom {
  kLoss,            // The loss of a step is not finite.
  kGradients,       // Step after step is skipped: the loss is finite, but the gradients are not.
  kNothingApplied,  // All steps of the run are done, and every one of them was skipped.
  kHighLoss,        // The loss is finite, but stays above that of an untrained model.
  kEvaluationLoss,  // The loss of an evaluation is not finite, although the whole state is finite.
  kParameter,       // An update produced a parameter that is not finite.
  kStatistic,       // Running statistics of a norm are not finite, although the losses are.
  kAverage,         // The average of a parameter is not finite.
  kMoment,          // The optimizer's state of a parameter is not finite.
};

// Facts about the run at the step that showed a symptom.
struct RunFacts {
  precision::LossScaleConfig::Kind scaling = precision::LossScaleConfig::Kind::kOff;
  float loss_scale = 1;           // Loss scale of the last step.
  bool at_floor = false;          // The dynamic scale can't fall any further.
  bool has_narrow_range = false;  // Something is computed in fp16 or FP8, which overflow where fp32 does not.
  // The first number of the forward pass that is not finite was computed in a format with the range of fp32. A narrower
  // format may still be the cause, if it has rounded an input of this computation to 0.
  bool fault_is_wide = false;
  bool was_updated = false;    // An earlier step updated the parameters, so the learning rate matters.
  bool clips = false;          // train.clip_grad_norm is set.
  bool loss_is_finite = true;  // Whether the loss of the last step is finite.
  // The model's loss ignores every label of the batch, so it is a mean over zero labels.
  bool ignores_all_labels = false;
  // The module where the backward pass met the first non-finite gradient; empty: unknown.
  std::string module;
};

// `reason`: the end reason of the attempt, if the job's policy ends it; REASON_UNSPECIFIED: only report the symptom.
// `advice`: what to do, a clause without a full stop.
struct Verdict {
  v1::Reason::Code reason = v1::Reason::REASON_UNSPECIFIED;
  std::string advice;
};

// Returns the end reason and the advice for bad numbers; no other code chooses them. The advice mentions the loss scale
// only if the job uses a loss scale that may be too high, and the learning rate only if an earlier step updated the
// parameters. Pure.
Verdict JudgeNumbers(Symptom symptom, const RunFacts& facts);

}  // namespace ampd::train
