#pragma once

#include <optional>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "worker/train/loop/finite_checks.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Evaluates a run on the plan's evaluation data, and feeds the results to the plateau schedule of the learning rate and
// to the early stopping. Keeps the result of the last evaluation. REQUIRES: no step is in flight. Single-threaded;
// owner: TrainingLoop.
class Evaluations {
 public:
  // `run` and `checks` outlive this object.
  Evaluations(TrainingRun& run, FiniteChecks& checks) : run_(run), checks_(checks) {}

  // Evaluates the current step and reports it. Does nothing if there is no evaluation data, or if the step was
  // evaluated before. Returns the errors of FiniteChecks::CheckEvaluation.
  absl::Status Evaluate();
  // Evaluates the step with which training ends. Unlike Evaluate, returns an error if the loss is not finite, even if
  // this step was evaluated before.
  absl::Status EvaluateLast();
  // Passes the loss of the last evaluation to the plateau schedule. If the schedule lowers the learning rate, reports
  // that.
  absl::Status FollowPlateau();
  // Passes the last evaluation to the early stopping. Afterwards TrainingRun::has_stopped_early() says whether training
  // stops.
  void FollowEarlyStopping();
  // Forgets the last evaluation. Call it after a roll-back.
  void Forget() { last_.reset(); }

  const std::optional<v1::EvalPoint>& last() const { return last_; }
  // The evaluation of the current step; null if the step was not evaluated.
  const v1::EvalPoint* current() const;
  // Whether the job keeps its best checkpoint, and the current step has the lowest evaluation loss so far.
  bool IsBest() const;

 private:
  absl::Status EvaluateUnlessCurrent();

  TrainingRun& run_;
  FiniteChecks& checks_;
  std::optional<v1::EvalPoint> last_;
  bool ignores_all_labels_ = false;  // The loss of the last evaluation, or of one of its batches, is of no labels.
};

}  // namespace ampd::train
