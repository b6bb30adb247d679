#include "worker/train/loop/finite_checks.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/train/loop/attempt_error.h"
#include "worker/train/loop/step_numbers.h"

namespace ampd::train {
namespace {

using amp::NonFinite;
using Kind = amp::StateTensor::Kind;
using v1::Event;

Symptom SymptomOf(Kind kind) {
  switch (kind) {
    case Kind::kStatistic:
      return Symptom::kStatistic;
    case Kind::kAverage:
      return Symptom::kAverage;
    case Kind::kMoment:
      return Symptom::kMoment;
    case Kind::kParameter:
    case Kind::kConstant:
      return Symptom::kParameter;
  }
  return Symptom::kParameter;
}

}  // namespace

std::string DescribeWithRange(const NonFinite& found) {
  return absl::StrCat(Describe(found), found.dtype == at::kHalf
                                           ? "; the largest number of float16 is 65504, so use a preset of bf16 or fp32"
                                           : "");
}

absl::Status FiniteChecks::CheckRestored() {
  const std::optional<NonFinite> found = run_.engine().FindNonFinite();
  if (!found.has_value()) {
    return absl::OkStatus();
  }
  reported_tensor_ = found->name;
  const std::string message = absl::StrCat("the checkpoint of step ", run_.step(),
                                           " has numbers that are not finite: ", DescribeWithRange(*found));
  const bool only_reports = run_.recovery().only_warns() || found->kind == Kind::kMoment;
  return only_reports ? run_.telemetry().Event(Event::WARNING, run_.step(), message,
                                               {{"rule", "state_not_finite"}, {"tensor", found->name}})
                      : AttemptError(v1::Reason::CHECKPOINT_ERROR, message);
}

Decision FiniteChecks::CheckState() {
  const std::optional<NonFinite> found = run_.engine().FindNonFinite();
  if (!found.has_value()) {
    reported_tensor_.clear();
    return {};
  }
  if (std::exchange(reported_tensor_, found->name) == found->name) {
    return {};
  }
  return run_.recovery().OnNonFiniteState({.symptom = SymptomOf(found->kind),
                                           .description = Describe(*found),
                                           .tensor = found->name,
                                           .count = found->count},
                                          run_.step(), FactsOf(run_), run_.plan().policy);
}

absl::Status FiniteChecks::CheckEvaluation(const v1::EvalPoint& point, bool ignores_all_labels, bool is_last) {
  if (std::isfinite(point.loss())) {
    evaluation_reported_ = false;
    return absl::OkStatus();
  }
  RunFacts facts = FactsOf(run_);
  facts.ignores_all_labels = ignores_all_labels;
  const std::optional<NonFinite> found = run_.engine().FindNonFinite();
  const Verdict verdict = JudgeNumbers(Symptom::kEvaluationLoss, facts);
  const std::string message = absl::StrCat("the evaluation loss of step ", run_.step(),
                                           " is not finite: ", found.has_value() ? Describe(*found) : verdict.advice);
  if (std::exchange(evaluation_reported_, true) && !is_last) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(
      run_.telemetry().Event(Event::WARNING, run_.step(), message, {{"rule", "eval_loss_not_finite"}}));
  return is_last && !run_.recovery().only_warns() ? AttemptError(verdict.reason, message) : absl::OkStatus();
}

void FiniteChecks::Forget() {
  reported_tensor_.clear();
  evaluation_reported_ = false;
}

bool FiniteChecks::IsGood() const {
  if (!run_.recovery().may_roll_back()) {
    return true;
  }
  const std::optional<NonFinite> found = run_.engine().FindNonFinite();
  return run_.recovery().calm() && (!found.has_value() || found->kind == Kind::kMoment);
}

}  // namespace ampd::train
