#pragma once

#include <string>

#include "ampd/v1/job.pb.h"
#include "precision/loss_scale.h"

// What is to be said of numbers that went wrong.
namespace ampd::train {

// What shows that a run's numbers are wrong.
enum class Symptom {
  kLoss,            // the loss of a step is not finite
  kGradients,       // step after step is skipped: the loss is finite, and the gradients are not
  kNothingApplied,  // the run is through, and every one of its steps was skipped
  kHighLoss,        // the loss is finite, and stays above that of an untrained model
  kEvaluationLoss,  // the loss of an evaluation is not finite, though all of the state is
  kParameter,       // an update left a parameter that is not finite
  kStatistic,       // running statistics of a norm are not finite, though the losses are
  kAverage,         // the average of a parameter is not finite
  kMoment,          // what the optimizer keeps of a parameter is not finite
};

// What is known of the run when a symptom shows.
struct RunFacts {
  precision::LossScaleConfig::Kind scaling = precision::LossScaleConfig::Kind::kOff;
  float loss_scale = 1;           // of the last step
  bool at_floor = false;          // the dynamic scale can't fall any more
  bool has_narrow_range = false;  // something is computed in fp16 or FP8, which overflow where fp32 does not
  bool was_updated = false;       // an update came before: the learning rate had an effect
  bool clips = false;             // train.clip_grad_norm is set
  bool loss_is_finite = true;     // of the last step
  // Every label of the batch is one that the model's loss ignores, so that its mean is over none.
  bool ignores_all_labels = false;
  // Where the backward pass met the first gradient that is not finite; empty: not known.
  std::string module;
};

// `reason` is what the attempt ends with where the job says so; REASON_UNSPECIFIED: it is only told. `advice` is what
// to do, a clause without a full stop.
struct Verdict {
  v1::Reason reason = v1::REASON_UNSPECIFIED;
  std::string advice;
};

// The only place that chooses an end reason for numbers and the advice beside it. It names the loss scale only where
// the job has one that may be to blame, and the learning rate only where an update came before. Pure.
Verdict JudgeNumbers(Symptom symptom, const RunFacts& facts);

}  // namespace ampd::train
