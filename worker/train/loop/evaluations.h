#pragma once

#include <optional>

#include "absl/status/status.h"
#include "ampd/v1/job.pb.h"
#include "worker/train/loop/finite_checks.h"
#include "worker/train/loop/training_run.h"

namespace ampd::train {

// Evaluates a run on the plan's evaluation data, and moves the plateau schedule by the results. Keeps the last result.
// REQUIRES: no step is in flight. Single-threaded; owner: TrainingLoop.
class Evaluations {
 public:
  // `run` and `checks` outlive this object.
  Evaluations(TrainingRun& run, FiniteChecks& checks) : run_(run), checks_(checks) {}

  // Evaluates the current step and reports it. Does nothing if there is no evaluation data, or if the step was
  // evaluated before. Returns the errors of FiniteChecks::CheckEvaluation.
  absl::Status Evaluate();
  // Gives the plateau schedule the last evaluation's loss, and reports a fall of the learning rate.
  absl::Status FollowPlateau();
  // Drops the last evaluation, after a roll-back.
  void Forget() { last_.reset(); }

  const std::optional<v1::EvalPoint>& last() const { return last_; }
  // The evaluation of the current step; null if there is none.
  const v1::EvalPoint* current() const;
  // Whether the current step was evaluated with the lowest loss so far, and its checkpoint is therefore kept.
  bool IsBest() const;

 private:
  TrainingRun& run_;
  FiniteChecks& checks_;
  std::optional<v1::EvalPoint> last_;
};

}  // namespace ampd::train
