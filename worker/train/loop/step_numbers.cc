#include "worker/train/loop/step_numbers.h"

#include <algorithm>
#include <cmath>

#include "worker/train/plan/labels.h"

namespace ampd::train {
namespace {

// Whether the policy uses a format with a smaller range than fp32, such as fp16 or FP8.
bool HasNarrowRange(const precision::ResolvedPolicy& policy) {
  const auto is_fp16 = [](const precision::ModuleRule& rule) { return rule.compute == graph::Dtype::kFloat16; };
  return policy.formats.compute == graph::Dtype::kFloat16 || policy.formats.parameter == graph::Dtype::kFloat16 ||
         !policy.fp8_layers.empty() || std::any_of(policy.module_rules.begin(), policy.module_rules.end(), is_fp16);
}

// Whether the step's loss is a mean over no labels. `place`: the batch's position in the data.
bool IgnoresAllLabels(const AttemptPlan& plan, const data::Sampler::Cursor& place) {
  data::Sampler sampler(plan.sampler);
  if (!plan.ignored_label.has_value() || !sampler.Seek(place)) {
    return false;
  }
  return IsMeanOfNoLabels(plan.train.Get(sampler.Next()).labels, plan.num_micro_batches, plan.ignored_label,
                          plan.has_label_count);
}

// Whether the fault is a number that is not finite although its format has the range of fp32.
bool IsWide(const std::optional<amp::ActivationFault>& fault) {
  return fault.has_value() && fault->kind == amp::ActivationFault::Kind::kNotFinite &&
         (fault->dtype == "float32" || fault->dtype == "bfloat16" || fault->dtype == "float64");
}

RunFacts StepFacts(const TrainingRun& run, const amp::StepResult& result, const data::Sampler::Cursor& place) {
  RunFacts facts = FactsOf(run);
  facts.loss_scale = result.loss_scale;
  facts.at_floor = result.scale_change == amp::ScaleChange::kAtFloor;
  facts.was_updated = run.engine().applied_steps() > (result.skipped ? 0 : 1);  // Whether an update preceded this step.
  facts.loss_is_finite = std::isfinite(result.loss);
  facts.fault_is_wide = !facts.loss_is_finite && IsWide(run.reports().activation_fault());
  facts.ignores_all_labels = !facts.loss_is_finite && IgnoresAllLabels(run.plan(), place);
  facts.module = result.overflow_module;
  return facts;
}

}  // namespace

RunFacts FactsOf(const TrainingRun& run) {
  const AttemptPlan& plan = run.plan();
  return {.scaling = plan.policy.loss_scale.kind,
          .loss_scale = run.engine().scaler().scale(),
          .has_narrow_range = HasNarrowRange(plan.policy),
          .was_updated = run.engine().applied_steps() > 0,
          .clips = plan.engine.clip_grad_norm.has_value(),
          .loss_is_finite = std::isfinite(run.progress().train_loss)};
}

StepNumbers NumbersOf(const TrainingRun& run, const amp::StepResult& result, const data::Sampler::Cursor& place) {
  const bool backed_off = result.scale_change == amp::ScaleChange::kBackedOff;
  return {.step = run.step(),
          .loss = result.loss,
          .grad_norm = result.grad_norm,
          .loss_scale = result.loss_scale,
          .run = StepFacts(run, result, place),
          .adversarial = result.phases.size() > 1,
          .skipped = result.skipped,
          .scale_moved = backed_off || result.scale_change == amp::ScaleChange::kGrown,
          .backed_off = backed_off,
          .next_loss_scale = run.engine().scaler().scale(),
          .hysteresis = run.plan().policy.loss_scale.hysteresis,
          .at_floor = result.scale_change == amp::ScaleChange::kAtFloor};
}

}  // namespace ampd::train
