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

// Checks between steps whether the state and the evaluation losses of a run are finite. If a check finds the same
// non-finite tensor again, it is not reported again. After a non-finite evaluation, the next one is reported only if a
// finite one came between. REQUIRES: no step is in flight. Single-threaded; owner: TrainingLoop.
class FiniteChecks {
 public:
  // `run` outlives this object.
  explicit FiniteChecks(TrainingRun& run) : run_(run) {}

  // Checks the state that was loaded from a checkpoint. Returns CHECKPOINT_ERROR if a value is not finite. Only reports
  // the value if it belongs to an optimizer moment, or if the job's on_divergence is WARN, because such a run may save
  // non-finite values.
  absl::Status CheckRestored();
  // Checks the trained state, and returns what to do about a non-finite tensor; kContinue if there is none.
  Decision CheckState();
  // Checks an evaluation of the current step. `ignores_all_labels`: one of its batches has no label that the loss
  // counts. `is_last`: training ends with this evaluation. Any other non-finite evaluation is only reported, because it
  // does not affect training.
  absl::Status CheckEvaluation(const v1::EvalPoint& point, bool ignores_all_labels, bool is_last);
  // Whether a checkpoint made now is good to roll back to. Always true if the run may not roll back.
  bool IsGood() const;

 private:
  TrainingRun& run_;
  std::string reported_tensor_;       // The tensor last reported as not finite.
  bool evaluation_reported_ = false;  // A non-finite loss was reported since the last finite one.
};

}  // namespace ampd::train
