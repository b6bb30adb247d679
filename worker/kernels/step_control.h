#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "worker/kernels/cpu/formats.h"
#include "worker/kernels/host_device.h"
#include "worker/kernels/schedule.h"
#include "worker/kernels/step_math.h"

// What is decided between the backward pass and the update, where the parameters are: whether the step is skipped, what
// the gradients are multiplied by, the learning rate, the step's number, and the next loss scale. The host reads none
// of it on the way. One source for the CPU and for the CUDA kernels.
namespace ampd::kernels {

// What an update did to the loss scale.
enum class ScaleChange : int32_t { kNone, kGrown, kBackedOff, kAtFloor };

// How a loss scale moves; what the fields mean, amp::LossScaler says.
struct ScalerRule {
  bool dynamic = false;  // otherwise it never moves by itself
  bool refill_on_every_good_step = false;
  int32_t hysteresis = 1;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double floor = 0;
  double cap = 0;
};

// Everything that a checkpoint must hold of a loss scale; its rule comes from the policy.
struct ScalerState {
  float scale = 1;
  int32_t growth_tracker = 0;   // applied steps since the last change
  int32_t hysteresis_left = 1;  // overflows that are still tolerated, the one that backs off included
  int32_t growth_interval = 0;  // as ordered last
  friend bool operator==(const ScalerState&, const ScalerState&) = default;
};

AMPD_HOST_DEVICE inline ScaleChange BackOff(const ScalerRule& rule, ScalerState& state) {
  state.growth_tracker = 0;
  state.hysteresis_left = std::max(0, state.hysteresis_left - 1);
  if (state.hysteresis_left > 0) {
    return ScaleChange::kNone;
  }
  const auto floor = static_cast<float>(rule.floor);
  if (state.scale <= floor) {  // without a floor: 0, where halving ends
    return ScaleChange::kAtFloor;
  }
  state.scale = std::max(static_cast<float>(state.scale * rule.backoff_factor), floor);
  return ScaleChange::kBackedOff;
}

AMPD_HOST_DEVICE inline ScaleChange Grow(const ScalerRule& rule, ScalerState& state) {
  if (rule.refill_on_every_good_step) {
    state.hysteresis_left = rule.hysteresis;
  }
  // Not an equality: an interval that an order lowered below the tracker takes effect now.
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

// Once a step.
AMPD_HOST_DEVICE inline ScaleChange UpdateScale(const ScalerRule& rule, ScalerState& state, bool found_inf) {
  if (!rule.dynamic) {
    return ScaleChange::kNone;
  }
  return found_inf ? BackOff(rule, state) : Grow(rule, state);
}

// What is decided of one phase's step. The update reads it.
struct StepDecision {
  bool skip = false;  // nothing is updated
  double norm = 0;    // of the gradients, unscaled; not finite on an overflow
  StepScalars scalars;
  double correction1 = 1;  // of Adam, as AdamStep has them
  double sqrt_correction2 = 1;
};

// The steps with what was decided.
AMPD_HOST_DEVICE inline AdamStep Decided(AdamStep step, const StepDecision& decision) {
  step.correction1 = decision.correction1;
  step.sqrt_correction2 = decision.sqrt_correction2;
  return step;
}

AMPD_HOST_DEVICE inline SgdStep Decided(SgdStep step, const StepDecision& decision) {
  step.first = decision.scalars.step == 1;
  return step;
}

// What a phase of the step decides by; constant over a run.
struct PhaseRule {
  ScheduleConfig schedule;
  double max_norm = 0;  // what the gradients' norm is clipped to; 0: they are not
  double average_decay = 0;
  uint64_t rounding_seed = 0;
  double beta1 = 0;  // of Adam
  double beta2 = 0;
};

// One phase: an optimizer over its parameters, with a loss of its own.
struct PhaseBlock {
  PhaseRule rule;
  int64_t first_fact = 0;  // among those of all phases
  int64_t num_facts = 0;   // of its gradients, one each
  int64_t applied_steps = 0;
  float loss = 0;  // of this step: mean over the labels of all micro-batches, unscaled
  StepDecision decision;
};

// What all phases share.
struct StepBlock {
  ScalerRule scaler_rule;
  ScalerState scaler;      // of this step until it ends, then of the next
  double rate_factor = 1;  // multiplies the rates of the phases' schedules
  float loss_scale = 1;    // of the step that ended last: what multiplied its losses
  ScaleChange scale_change = ScaleChange::kNone;
};

// Where all that lies: in the memory of the device.
struct StepControl {
  StepBlock* step = nullptr;
  PhaseBlock* phases = nullptr;
  GradientFacts* facts = nullptr;
  int32_t num_phases = 0;
};

// Whether a phase's gradients can be applied, from the sum of its facts. Without a loss scaler there is nothing to back
// off, but the step is skipped all the same, so that the weights stay what they were; so it is with a scale that fell
// so low that nothing can be divided by it.
AMPD_HOST_DEVICE inline void Judge(const StepBlock& step, const GradientFacts& sum, PhaseBlock& phase) {
  phase.decision.norm = std::sqrt(sum.sum_squares) / step.scaler.scale;
  phase.decision.skip = sum.num_non_finite > 0 || !IsFinite(1.0f / step.scaler.scale);
}

// What the update needs to know, once it is clear whether it happens.
AMPD_HOST_DEVICE inline void Settle(const StepBlock& step, PhaseBlock& phase) {
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

// Phases that were judged, from `first` on: all of them update or none.
AMPD_HOST_DEVICE inline void SettleTogether(const StepControl& control, int32_t first, int32_t num_phases) {
  bool skip = false;
  for (int32_t i = first; i < first + num_phases; ++i) {
    skip = skip || control.phases[i].decision.skip;
  }
  for (int32_t i = first; i < first + num_phases; ++i) {
    control.phases[i].decision.skip = skip;
    Settle(*control.step, control.phases[i]);
  }
}

// The tail, after the last phase: one update of the loss scale, which backs off when any phase was skipped.
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
