#include "worker/train/loop/evaluations.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/train/loop/micro_batches.h"
#include "worker/train/plan/labels.h"
#include "worker/train/report/eval_point.h"

namespace ampd::train {

absl::Status Evaluations::Evaluate() {
  if (!run_.plan().eval.has_value() || current() != nullptr) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(EvaluateUnlessCurrent());
  return checks_.CheckEvaluation(*last_, ignores_all_labels_, /*is_last=*/false);
}

absl::Status Evaluations::EvaluateLast() {
  if (!run_.plan().eval.has_value()) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(EvaluateUnlessCurrent());
  return checks_.CheckEvaluation(*last_, ignores_all_labels_, /*is_last=*/true);
}

absl::Status Evaluations::EvaluateUnlessCurrent() {
  if (current() != nullptr) {
    return absl::OkStatus();
  }
  const AttemptPlan& plan = run_.plan();
  amp::EvalSums sums;
  ignores_all_labels_ = false;
  amp::Batch first;
  std::string why_uneven;
  for (int64_t begin = 0; begin < plan.eval->size(); begin += plan.eval_batch_size) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(plan.eval_batch_size, plan.eval->size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const amp::Batch batch = MicroBatchesOf(plan.eval->Get(indices), 1).front();
    // With a label count, a batch without labels adds nothing to the loss.
    ignores_all_labels_ =
        ignores_all_labels_ || (!plan.has_label_count && AreAllIgnored(batch.labels, plan.ignored_label));
    sums.Add(run_.engine().Evaluate(batch, static_cast<uint64_t>(begin / plan.eval_batch_size)));
    first = begin == 0 ? batch : first;
    if (begin > 0 && why_uneven.empty() && !run_.reports().reported().uneven) {
      why_uneven = run_.uneven_batches().WhyUneven({first, batch});
    }
  }
  ignores_all_labels_ = ignores_all_labels_ || sums.num_counted == 0;
  AMPD_RETURN_IF_ERROR(run_.reports().ReportUneven(run_.step(), why_uneven, "an evaluation's batches"));
  last_ = EvalPointOf(graph::HeadOf(plan.model).value(), sums);
  last_->set_step(run_.step());
  return run_.telemetry().Eval(*last_);
}

absl::Status Evaluations::FollowPlateau() {
  std::optional<amp::Plateau>& plateau = run_.plateau();
  if (!plateau.has_value() || !last_.has_value() || !plateau->Observe(last_->loss())) {
    return absl::OkStatus();
  }
  run_.engine().set_rate_factor(plateau->state().rate_factor);
  const std::string rate = absl::StrCat(plateau->learning_rate());
  const std::string best = absl::StrCat(plateau->state().best_loss);
  return run_.telemetry().Event(
      v1::Event::LEARNING_RATE_FELL, run_.step(),
      absl::StrCat("the learning rate was lowered to ", rate, ", because for more than ",
                   run_.plan().plateau->patience_evals, " evaluations the loss did not fall below ", best),
      {{"learning_rate", rate}, {"best_loss", best}});
}

void Evaluations::FollowEarlyStopping() {
  if (run_.early_stopping().has_value() && last_.has_value()) {
    run_.early_stopping()->Observe(*last_);
  }
}

const v1::EvalPoint* Evaluations::current() const {
  return last_.has_value() && last_->step() == run_.step() ? &*last_ : nullptr;
}

bool Evaluations::IsBest() const {
  return run_.plan().keep_best && current() != nullptr &&
         current()->loss() < run_.progress().best_eval_loss.value_or(std::numeric_limits<double>::infinity());
}

}  // namespace ampd::train
