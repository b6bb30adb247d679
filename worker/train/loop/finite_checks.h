#pragma once

#include <string>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "worker/amp/finite_state.h"
#include "worker/train/health/recovery.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Describes the non-finite tensor. If the tensor is float16, also names that format's range, because a wider format may
// hold its numbers.
std::string DescribeWithRange(const amp::NonFinite& found);

// Checks between steps whether the state and the evaluations of a run are finite. Does not report the same tensor twice
// in a row, nor a non-finite evaluation again before a finite one. REQUIRES: no step is in flight. Single-threaded;
// owner: TrainingLoop.
class FiniteChecks {
 public:
  // `run` outlives this object.
  explicit FiniteChecks(TrainingRun& run) : run_(run) {}

  // Checks the state that was loaded from a checkpoint. CHECKPOINT_ERROR if a value is not finite. It is only reported
  // if the affected tensor is one of the optimizer's moments, or if the run only warns, because such a run may save
  // non-finite values.
  absl::Status CheckRestored();
  // Checks the trained state, and returns what to do about a non-finite tensor; kContinue if there is none.
  Decision CheckState();
  // Checks an evaluation of the current step. `ignores_all_labels`: one of its batches has no label that the loss
  // counts. A non-finite evaluation before the last step is only reported, because it does not affect training.
  absl::Status CheckEvaluation(const v1::EvalPoint& point, bool ignores_all_labels);
  // Whether a checkpoint made now is good to roll back to. Always true if the run may not roll back.
  bool IsGood() const;

 private:
  TrainingRun& run_;
  std::string reported_tensor_;       // The tensor last reported as not finite.
  bool evaluation_reported_ = false;  // A non-finite loss was reported since the last finite one.
};

}  // namespace ampd::train
