#pragma once

#include <string>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "worker/amp/finite_state.h"
#include "worker/train/health/recovery.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Describes the tensor, and says how far its format reaches if its numbers may be finite in fp32.
std::string DescribeWithRange(const amp::NonFinite& found);

// Checks between steps whether the state and the evaluations of a run are finite. Reports a tensor once, and a
// non-finite evaluation once until a finite one follows. REQUIRES: no step is in flight.
// Single-threaded; owner: TrainingLoop.
class FiniteChecks {
 public:
  // `run` outlives the checks.
  explicit FiniteChecks(TrainingRun& run) : run_(run) {}

  // Checks a loaded checkpoint. A run that only warns may have saved one with non-finite values; in any other,
  // CHECKPOINT_ERROR, unless only the optimizer's moments are affected.
  absl::Status CheckRestored();
  // Checks the trained state, and returns what to do about it.
  Decision CheckState();
  // Checks an evaluation of the current step. `ignores_all_labels`: one of its batches has no label that the loss
  // counts. One before the last step is only reported, because it does not affect training.
  absl::Status CheckEvaluation(const v1::EvalPoint& point, bool ignores_all_labels);
  // Whether a checkpoint made now is good to roll back to. Always true if the run may not roll back.
  bool IsGood() const;

 private:
  TrainingRun& run_;
  std::string reported_tensor_;       // The tensor last reported as not finite.
  bool evaluation_reported_ = false;  // A non-finite loss was reported since the last finite one.
};

}  // namespace ampd::train
