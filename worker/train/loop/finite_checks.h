#pragma once

#include <string>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "worker/amp/finite_state.h"
#include "worker/train/health/recovery.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Describes the non-finite tensor. For a float16 tensor, adds the largest number of that format, because a wider format
// may hold the values.
std::string DescribeWithRange(const amp::NonFinite& found);

// Checks between steps whether the state and the evaluation losses of a run are finite. Repeated findings are reported
// once: the same non-finite tensor is not reported again, and neither is a non-finite evaluation loss that directly
// follows another one. A roll-back ends this: a finding after it is a new one. REQUIRES: no step is in flight.
// Single-threaded; owner: TrainingLoop.
class FiniteChecks {
 public:
  // `run` outlives this object.
  explicit FiniteChecks(TrainingRun& run) : run_(run) {}

  // Checks the state that was loaded from a checkpoint. Returns CHECKPOINT_ERROR if a value is not finite. In two cases
  // it reports the value and returns no error: if the value is in a moment of the optimizer, or if the job's
  // on_divergence is WARN, because such a job may save non-finite values.
  absl::Status CheckRestored();
  // Checks the trained state. Returns what the run must do about a non-finite tensor. Returns kContinue if all
  // tensors are finite, or if the same tensor was found by the last check.
  Decision CheckState();
  // Checks whether the loss of an evaluation of the current step is finite. `ignores_all_labels`: the loss, or
  // that of one batch, is a mean over no labels. `is_last`: training ends with this evaluation. Before the end, a
  // non-finite loss is only reported, because evaluations do not affect training.
  absl::Status CheckEvaluation(const v1::EvalPoint& point, bool ignores_all_labels, bool is_last);
  // Forgets what was reported. Call it after a roll-back. Without this call, CheckState would return kContinue if the
  // tensor that caused the roll-back is not finite again.
  void Forget();
  // Whether a checkpoint that is made now is good enough to roll back to. True for a run that never rolls back.
  bool IsGood() const;

 private:
  TrainingRun& run_;
  std::string reported_tensor_;       // The tensor last reported as not finite.
  bool evaluation_reported_ = false;  // A non-finite loss was reported after the last finite one.
};

}  // namespace ampd::train
