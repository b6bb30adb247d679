// Checks whether the numbers of a run are finite: its initial values, its state and its evaluations.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "worker/train/loop/training_loop.h"
#include "worker/train/plan/labels.h"
#include "worker/train/plan/model_source.h"

namespace ampd::train {
namespace {

using amp::NonFinite;
using Kind = amp::StateTensor::Kind;
using precision::LossScaleConfig;
using v1::Event;

absl::Status Failed(v1::Reason reason, const std::string& message) {
  return Error(absl::StatusCode::kFailedPrecondition, v1::Reason_Name(reason), message);
}

// Whether something is computed in a format that overflows where fp32 does not.
bool HasNarrowRange(const precision::ResolvedPolicy& policy) {
  const auto is_fp16 = [](const precision::ModuleRule& rule) { return rule.compute == graph::Dtype::kFloat16; };
  return policy.formats.compute == graph::Dtype::kFloat16 || policy.formats.parameter == graph::Dtype::kFloat16 ||
         !policy.fp8_layers.empty() || std::any_of(policy.module_rules.begin(), policy.module_rules.end(), is_fp16);
}

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

// "; float16 ends at 65504 ..." if the numbers may be finite in fp32.
std::string RangeOf(at::ScalarType dtype) {
  return dtype == at::kHalf ? "; float16 ends at 65504, and a preset of bf16 or fp32 holds more" : "";
}

// The source of this tensor's initial values, for messages.
std::string SourceOf(const v1::ModelSpec& model, const std::string& tensor) {
  const bool is_anew = std::any_of(model.initialize_anew().begin(), model.initialize_anew().end(),
                                   [&](const std::string& glob) { return GlobMatches(glob, tensor); });
  const bool has_weights = !model.initial_weights().empty() || model.has_initial_checkpoint();
  if (has_weights && !is_anew) {
    return NameOfInitialWeights(model);
  }
  return model.exported().artifact().empty()
             ? absl::StrCat("model.exported.path \"", model.exported().path(), "\"")
             : absl::StrCat("model.exported.artifact \"", model.exported().artifact(), "\"");
}

}  // namespace

RunFacts TrainingLoop::Facts() const {
  return {.scaling = plan_.policy.loss_scale.kind,
          .loss_scale = engine_->scaler().scale(),
          .has_narrow_range = HasNarrowRange(plan_.policy),
          .was_updated = engine_->applied_steps() > 0,
          .clips = plan_.engine.clip_grad_norm.has_value(),
          .loss_is_finite = std::isfinite(train_loss_)};
}

RunFacts TrainingLoop::FactsOf(const amp::StepResult& result, const data::Sampler::Cursor& place) {
  RunFacts facts = Facts();
  facts.loss_scale = result.loss_scale;
  facts.at_floor = result.scale_change == amp::ScaleChange::kAtFloor;
  facts.was_updated = engine_->applied_steps() > (result.skipped ? 0 : 1);  // Before this step.
  facts.loss_is_finite = std::isfinite(result.loss);
  facts.ignores_all_labels = !facts.loss_is_finite && IgnoresAllLabels(place);
  facts.module = result.overflow_module;
  last_facts_ = facts;
  return facts;
}

// Whether a micro-batch of the batch at `place` has no label that the loss counts.
bool TrainingLoop::IgnoresAllLabels(const data::Sampler::Cursor& place) const {
  data::Sampler sampler(plan_.sampler);
  if (!plan_.ignored_label.has_value() || !sampler.Seek(place)) {
    return false;
  }
  const at::Tensor labels = plan_.train.Get(sampler.Next()).labels;
  const int64_t size = labels.size(0) / plan_.num_micro_batches;
  for (int64_t i = 0; i < plan_.num_micro_batches; ++i) {
    if (AreAllIgnored(labels.narrow(0, i * size, size), plan_.ignored_label)) {
      return true;
    }
  }
  return false;
}

// Checks the model's initial values, before the first step.
absl::Status TrainingLoop::CheckBegun() {
  const v1::ModelSpec& model = context_.start.spec().model();
  if (!model.has_exported() && model.initial_weights().empty() && !model.has_initial_checkpoint()) {
    return absl::OkStatus();  // The values are drawn by the engine.
  }
  const std::optional<NonFinite> found = engine_->FindNonFinite();
  return found.has_value() ? Failed(v1::DATA_ERROR, absl::StrCat(SourceOf(model, found->name), ": ", Describe(*found),
                                                                 RangeOf(found->dtype)))
                           : absl::OkStatus();
}

// Checks a loaded checkpoint. A run that only warns may have saved one with non-finite values.
absl::Status TrainingLoop::CheckRestored() {
  const std::optional<NonFinite> found = engine_->FindNonFinite();
  if (!found.has_value()) {
    return absl::OkStatus();
  }
  told_state_ = found->name;
  const std::string message =
      absl::StrCat("the checkpoint of step ", step_, ": ", Describe(*found), RangeOf(found->dtype));
  const bool is_told = plan_.on_divergence == v1::JobSpec::WARN || found->kind == Kind::kMoment;
  return is_told
             ? telemetry_.Event(Event::WARNING, step_, message, {{"rule", "state_not_finite"}, {"tensor", found->name}})
             : Failed(v1::CHECKPOINT_ERROR, message);
}

// Checks the trained state. Reports a tensor once.
absl::Status TrainingLoop::CheckState() {
  const std::optional<NonFinite> found = engine_->FindNonFinite();
  if (!found.has_value()) {
    told_state_.clear();
    return absl::OkStatus();
  }
  if (std::exchange(told_state_, found->name) == found->name) {
    return absl::OkStatus();
  }
  const Verdict verdict = JudgeNumbers(SymptomOf(found->kind), Facts());
  const Finding finding = {
      .kind = verdict.reason == v1::REASON_UNSPECIFIED ? Event::WARNING : Event::DIVERGENCE,
      .reason = verdict.reason,
      .message = absl::StrCat("at step ", step_, " ", Describe(*found), ": ", verdict.advice),
      .attributes = {{"rule", "state_not_finite"}, {"tensor", found->name}, {"count", absl::StrCat(found->count)}}};
  AMPD_RETURN_IF_ERROR(telemetry_.Event(finding.kind, step_, finding.message, finding.attributes));
  return finding.reason == v1::REASON_UNSPECIFIED ? absl::OkStatus() : OnDivergence(finding, /*module=*/"");
}

// Checks the latest evaluation. One before the last step is only reported, once: it does not affect training.
absl::Status TrainingLoop::CheckEvaluation(bool ignores_all_labels) {
  if (std::isfinite(last_eval_->loss())) {
    told_evaluation_ = false;
    return absl::OkStatus();
  }
  RunFacts facts = Facts();
  facts.ignores_all_labels = ignores_all_labels;
  const std::optional<NonFinite> found = engine_->FindNonFinite();
  const Verdict verdict = JudgeNumbers(Symptom::kEvaluationLoss, facts);
  const std::string message = absl::StrCat("the evaluation loss of step ", step_,
                                           " is not finite: ", found.has_value() ? Describe(*found) : verdict.advice);
  const bool is_last = step_ == plan_.total_steps;
  if (std::exchange(told_evaluation_, true) && !is_last) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(telemetry_.Event(Event::WARNING, step_, message, {{"rule", "eval_loss_not_finite"}}));
  return is_last && plan_.on_divergence != v1::JobSpec::WARN ? Failed(verdict.reason, message) : absl::OkStatus();
}

// Whether a checkpoint made now is good to roll back to. Always true if the run may not roll back.
bool TrainingLoop::IsGood() const {
  if (!MayRollBack()) {
    return true;
  }
  const std::optional<NonFinite> found = engine_->FindNonFinite();
  return monitor_.calm() && (!found.has_value() || found->kind == Kind::kMoment);
}

}  // namespace ampd::train
