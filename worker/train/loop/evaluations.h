#pragma once

#include <optional>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "worker/train/loop/finite_checks.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Evaluates a run on the plan's evaluation data, and feeds the results to the plateau schedule of the learning rate and
// to the early stopping. Keeps the last result. REQUIRES: no step is in flight. Single-threaded; owner: TrainingLoop.
class Evaluations {
 public:
  // `run` and `checks` outlive this object.
  Evaluations(TrainingRun& run, FiniteChecks& checks) : run_(run), checks_(checks) {}

  // Evaluates the current step and reports it. Does nothing if there is no evaluation data, or if the step was
  // evaluated before. Returns the errors of FiniteChecks::CheckEvaluation.
  absl::Status Evaluate();
  // Does the same at the step with which training ends. A loss that is not finite is then an error, also if the step
  // was evaluated before.
  absl::Status EvaluateLast();
  // Gives the plateau schedule the last evaluation's loss, and reports a fall of the learning rate.
  absl::Status FollowPlateau();
  // Gives the early stopping the last evaluation. TrainingRun::has_stopped_early() then says whether training stops.
  void FollowEarlyStopping();
  // Drops the last evaluation, after a roll-back.
  void Forget() { last_.reset(); }

  const std::optional<v1::EvalPoint>& last() const { return last_; }
  // The evaluation of the current step; null if there is none.
  const v1::EvalPoint* current() const;
  // Whether the current step was evaluated with the lowest loss so far, and its checkpoint is therefore kept.
  bool IsBest() const;

 private:
  absl::Status EvaluateUnlessCurrent();

  TrainingRun& run_;
  FiniteChecks& checks_;
  std::optional<v1::EvalPoint> last_;
  bool ignores_all_labels_ = false;  // One of the last evaluation's batches has no label that counts.
};

}  // namespace ampd::train
