#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/host_device.h"
#include "worker/kernels/schedule.h"
#include "worker/kernels/step_math.h"

// The decisions between the backward pass and the update, which are made on the parameters' device. They are whether
// the step is skipped, the factor on the gradients, the learning rate, the step's number, and the next loss scale. The
// host does not read them before the update. The CPU and the CUDA kernels use the same source.
namespace ampd::kernels {

// The effect of an update on the loss scale.
enum class ScaleChange : int32_t { kNone, kGrown, kBackedOff, kAtFloor };

// The rule by which a loss scale changes; amp::LossScaler explains the fields.
struct ScalerRule {
  bool dynamic = false;  // If false, only orders change the scale.
  bool refill_on_every_good_step = false;
  int32_t hysteresis = 1;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double floor = 0;
  double cap = 0;
};

// The state of a loss scale, which a checkpoint must hold. How the scale grows and shrinks comes from the policy.
struct ScalerState {
  float scale = 1;
  int32_t growth_tracker = 0;   // Good steps in the current growth interval.
  int32_t hysteresis_left = 1;  // Overflows until the scale backs off, counting the one that causes it.
  int32_t growth_interval = 0;  // As configured, or as a user last set it.
  friend bool operator==(const ScalerState&, const ScalerState&) = default;
};

AMPD_HOST_DEVICE inline ScaleChange BackOff(const ScalerRule& rule, ScalerState& state) {
  state.growth_tracker = 0;
  state.hysteresis_left = std::max(0, state.hysteresis_left - 1);
  if (state.hysteresis_left > 0) {
    return ScaleChange::kNone;
  }
  const auto floor = static_cast<float>(rule.floor);
  if (state.scale <= floor) {  // Without a floor this is 0, where halving ends.
    return ScaleChange::kAtFloor;
  }
  state.scale = std::max(static_cast<float>(state.scale * rule.backoff_factor), floor);
  return ScaleChange::kBackedOff;
}

AMPD_HOST_DEVICE inline ScaleChange Grow(const ScalerRule& rule, ScalerState& state) {
  if (rule.refill_on_every_good_step) {
    state.hysteresis_left = rule.hysteresis;
  }
  // The test is not for equality, because the tracker may be above the interval: a user may lower the interval while
  // the job runs.
  if (++state.growth_tracker < state.growth_interval) {
    return ScaleChange::kNone;
  }
  state.growth_tracker = 0;
  state.hysteresis_left = rule.hysteresis;
  const auto cap = static_cast<float>(rule.cap);
  const auto grown = static_cast<float>(state.scale * rule.growth_factor);
  if (!IsFinite(grown) && IsFinite(cap)) {
    return ScaleChange::kNone;
  }
  const float next = std::min(grown, cap);
  if (next <= state.scale) {
    return ScaleChange::kNone;
  }
  state.scale = next;
  return ScaleChange::kGrown;
}

// Updates the loss scale after a step. Called once per step.
AMPD_HOST_DEVICE inline ScaleChange UpdateScale(const ScalerRule& rule, ScalerState& state, bool found_inf) {
  if (!rule.dynamic) {
    return ScaleChange::kNone;
  }
  return found_inf ? BackOff(rule, state) : Grow(rule, state);
}

// The decision about one phase's step; the update reads it.
struct StepDecision {
  bool skip = false;  // Nothing is updated.
  double norm = 0;    // Norm of the gradients, unscaled; not finite on an overflow.
  StepScalars scalars;
  double correction1 = 1;  // Bias correction of Adam, as in AdamStep.
  double sqrt_correction2 = 1;
};

// Returns a copy of `step` with the values that the decision determines filled in.
AMPD_HOST_DEVICE inline AdamStep Decided(AdamStep step, const StepDecision& decision) {
  step.correction1 = decision.correction1;
  step.sqrt_correction2 = decision.sqrt_correction2;
  return step;
}

AMPD_HOST_DEVICE inline SgdStep Decided(SgdStep step, const StepDecision& decision) {
  step.first = decision.scalars.step == 1;
  return step;
}

// The settings on which a phase's decisions depend; constant during a run.
struct PhaseRule {
  ScheduleConfig schedule;
  double max_norm = 0;  // The gradients' norm is clipped to this; 0: no clipping.
  double average_decay = 0;
  uint64_t rounding_seed = 0;
  double beta1 = 0;  // For Adam.
  double beta2 = 0;
};

// One phase: an optimizer over its parameters, with its own loss.
struct PhaseBlock {
  PhaseRule rule;
  int64_t first_stat = 0;  // Index of its first stat among the stats of all phases.
  int64_t num_stats = 0;   // One per gradient.
  int64_t applied_steps = 0;
  float loss = 0;  // Mean of this step's loss over the labels of all micro-batches, unscaled.
  StepDecision decision;
};

// State that all phases share.
struct StepBlock {
  ScalerRule scaler_rule;
  ScalerState scaler;      // The state for the current step; after the step has ended, for the next one.
  double rate_factor = 1;  // Multiplies the rates of the phases' schedules.
  float loss_scale = 1;    // The factor on the losses of the last step that ended.
  ScaleChange scale_change = ScaleChange::kNone;
};

// Pointers to the scalars of a step, in the device's memory: those that all phases share, those of each phase, and the
// stats of all gradients.
struct StepControl {
  StepBlock* step = nullptr;
  PhaseBlock* phases = nullptr;
  GradientStats* stats = nullptr;
  int32_t num_phases = 0;
};

// Sets whether a phase skips its update, from the sum of its stats. A step with non-finite gradients is skipped even
// without a loss scaler, so that the weights keep their values. It is also skipped if the scale fell so low that its
// reciprocal is not finite.
AMPD_HOST_DEVICE inline void CheckFinite(const StepBlock& step, const GradientStats& sum, PhaseBlock& phase) {
  phase.decision.norm = std::sqrt(sum.sum_squares) / step.scaler.scale;
  phase.decision.skip = sum.num_non_finite > 0 || !IsFinite(1.0f / step.scaler.scale);
}

// Computes the scalars that the update uses. Call after it is known whether the phase skips its update.
AMPD_HOST_DEVICE inline void FinalizeDecision(const StepBlock& step, PhaseBlock& phase) {
  StepDecision& decision = phase.decision;
  const PhaseRule& rule = phase.rule;
  // torch.nn.utils.clip_grad_norm_: the coefficient is max_norm / (norm + 1e-6), at most 1.
  const double clip = rule.max_norm > 0 ? std::min(1.0, rule.max_norm / (decision.norm + 1e-6)) : 1.0;
  const int64_t number = phase.applied_steps + 1;
  const auto t = static_cast<double>(number);
  decision.scalars.gradient_scale = static_cast<float>(clip / step.scaler.scale);
  decision.scalars.rate_factor = step.rate_factor * RateFactor(rule.schedule, phase.applied_steps);
  decision.scalars.average_decay = rule.average_decay;
  decision.scalars.rounding_seed = rule.rounding_seed;
  decision.scalars.step = number;
  decision.correction1 = 1 - std::pow(rule.beta1, t);
  decision.sqrt_correction2 = std::sqrt(1 - std::pow(rule.beta2, t));
  if (!decision.skip) {
    phase.applied_steps = number;
  }
}

// Makes one decision for `num_phases` phases, from `first` on: all update, or all skip the update. REQUIRES:
// CheckFinite was called for each.
AMPD_HOST_DEVICE inline void FinalizeTogether(const StepControl& control, int32_t first, int32_t num_phases) {
  bool skip = false;
  for (int32_t i = first; i < first + num_phases; ++i) {
    skip = skip || control.phases[i].decision.skip;
  }
  for (int32_t i = first; i < first + num_phases; ++i) {
    control.phases[i].decision.skip = skip;
    FinalizeDecision(*control.step, control.phases[i]);
  }
}

// Ends the step after the last phase: updates the loss scale once. The scale backs off if any phase was skipped.
AMPD_HOST_DEVICE inline void EndStep(const StepControl& control) {
  bool found_inf = false;
  for (int32_t i = 0; i < control.num_phases; ++i) {
    found_inf = found_inf || control.phases[i].decision.skip;
  }
  StepBlock& step = *control.step;
  step.loss_scale = step.scaler.scale;
  step.scale_change = UpdateScale(step.scaler_rule, step.scaler, found_inf);
}

}  // namespace ampd::kernels
