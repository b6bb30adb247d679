#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_spec.pb.h"
#include "worker/train/health/divergence_monitor.h"

namespace ampd::train {

// When training stops before its last step (v1.EarlyStopping).
struct EarlyStoppingConfig {
  v1::EarlyStopping::Metric metric = v1::EarlyStopping::EVAL_LOSS;
  int patience = 3;      // Evaluations in a row without improvement after which training stops; at least 1.
  double min_delta = 0;  // A metric is an improvement if it is better than the best by more than this.
};

// The spec's settings, with the defaults of unset ones.
EarlyStoppingConfig EarlyStoppingOf(const v1::EarlyStopping& spec);

// What the evaluations so far have shown. Part of a checkpoint.
struct EarlyStoppingState {
  std::optional<double> best;  // The best metric so far; unset if none was finite.
  int64_t best_step = 0;       // The step whose evaluation had the best metric; 0 if `best` is unset.
  int num_bad_evals = 0;       // Evaluations in a row without improvement.
  friend bool operator==(const EarlyStoppingState&, const EarlyStoppingState&) = default;
};

// Decides from the results of evaluations whether training stops: the rule of EarlyStopping in Keras and in PyTorch
// Lightning. The first finite metric is an improvement, and then every metric that is better than the best by more than
// min_delta. Training stops after `patience` evaluations in a row without an improvement. A metric that is not finite
// is not an improvement. Pure. Thread-compatible.
//
// With the patience 2 and the losses 1.0, 0.9, 0.9, 0.95, training stops at the fourth evaluation; the best loss is
// 0.9.
class EarlyStopping {
 public:
  explicit EarlyStopping(const EarlyStoppingConfig& config) : config_(config) {}

  // Records the evaluation of the step `eval.step()`. Returns whether training stops there.
  bool Observe(const v1::EvalPoint& eval);

  // Whether training has stopped. This stays true in a run that resumes from this state, unless that run has a larger
  // patience.
  bool has_stopped() const { return state_.num_bad_evals >= config_.patience; }
  // Describes why training stopped at `step`, as a STOPPED_EARLY event. `total_steps`: the number of steps that the job
  // was to train. REQUIRES: has_stopped().
  Finding Describe(int64_t step, int64_t total_steps) const;

  const EarlyStoppingState& state() const { return state_; }
  // Replaces the state, for example by that of a checkpoint after a roll-back.
  void Restore(const EarlyStoppingState& state) { state_ = state; }

 private:
  double MetricOf(const v1::EvalPoint& eval) const;
  bool IsImprovement(double metric) const;
  std::string Cause() const;

  const EarlyStoppingConfig config_;
  EarlyStoppingState state_;
};

}  // namespace ampd::train
