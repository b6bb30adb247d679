#include "worker/train/health/early_stopping.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ampd::train {

EarlyStoppingConfig EarlyStoppingOf(const v1::EarlyStopping& spec) {
  EarlyStoppingConfig config;
  config.metric = spec.metric() == v1::EarlyStopping::METRIC_UNSPECIFIED ? config.metric : spec.metric();
  config.patience = spec.has_patience() ? spec.patience() : config.patience;
  config.min_delta = spec.min_delta();
  return config;
}

bool EarlyStopping::Observe(const v1::EvalPoint& eval) {
  const double metric = MetricOf(eval);
  if (IsImprovement(metric)) {
    state_ = {.best = metric, .best_step = eval.step(), .num_bad_evals = 0};
  } else {
    ++state_.num_bad_evals;
  }
  return has_stopped();
}

double EarlyStopping::MetricOf(const v1::EvalPoint& eval) const {
  if (config_.metric == v1::EarlyStopping::EVAL_ACCURACY) {
    return eval.has_accuracy() ? eval.accuracy() : std::numeric_limits<double>::quiet_NaN();
  }
  return eval.loss();
}

bool EarlyStopping::IsImprovement(double metric) const {
  if (!std::isfinite(metric)) {
    return false;
  }
  if (!state_.best.has_value()) {
    return true;
  }
  const bool rises = config_.metric == v1::EarlyStopping::EVAL_ACCURACY;
  return (rises ? metric - *state_.best : *state_.best - metric) > config_.min_delta;
}

// Explains which evaluations stopped the training: "eval_loss has not fallen by more than 0.001 below its best value
// (0.412 at step 250) in the last 3 evaluations".
std::string EarlyStopping::Cause() const {
  const bool rises = config_.metric == v1::EarlyStopping::EVAL_ACCURACY;
  const std::string name = rises ? "eval_accuracy" : "eval_loss";
  const std::string evaluations =
      absl::StrCat(state_.num_bad_evals, state_.num_bad_evals == 1 ? " evaluation" : " evaluations");
  if (!state_.best.has_value()) {
    return absl::StrCat(name, " was not finite in any of ", evaluations);
  }
  return absl::StrCat(name, " has not ", rises ? "risen" : "fallen",
                      config_.min_delta > 0 ? absl::StrCat(" by more than ", config_.min_delta) : "",
                      rises ? " above" : " below", " its best value (", *state_.best, " at step ", state_.best_step,
                      ") in the last ", state_.num_bad_evals == 1 ? "evaluation" : evaluations);
}

Finding EarlyStopping::Describe(int64_t step, int64_t total_steps) const {
  Finding finding;
  finding.kind = v1::Event::STOPPED_EARLY;
  finding.message = absl::StrCat("training stopped early at step ", step, " of ", total_steps, ": ", Cause());
  finding.attributes = {{"metric", v1::EarlyStopping::Metric_Name(config_.metric)},
                        {"min_delta", absl::StrCat(config_.min_delta)},
                        {"patience", absl::StrCat(config_.patience)},
                        {"total_steps", absl::StrCat(total_steps)}};
  if (state_.best.has_value()) {
    finding.attributes.insert({{"best", absl::StrCat(*state_.best)}, {"best_step", absl::StrCat(state_.best_step)}});
  }
  return finding;
}

}  // namespace ampd::train
