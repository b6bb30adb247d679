#pragma once

#include <cstdint>
#include <optional>

#include "precision/loss_scale.h"
#include "worker/kernels/step_control.h"

namespace ampd::amp {

using kernels::ScaleChange;
using LossScalerState = kernels::ScalerState;

// Multiplies the loss so that small gradients survive a narrow format. One rule covers torch.amp.GradScaler and Keras
// (hysteresis 1), Apex (a cap), Megatron and DeepSpeed (hysteresis refilled when an interval ends) and Apex's kernel
// and DeepSpeed's consecutive_hysteresis (refilled on every good step). Sources: torch/amp/grad_scaler.py,
// apex/amp/scaler.py and update_scale_hysteresis.cu, deepspeed/runtime/fp16/loss_scaler.py, megatron's grad_scaler.py.
//
//   overflow:     tracker = 0; the hysteresis decreases by one; once it is used up, scale *= backoff, but not below the
//                 floor
//   no overflow:  tracker += 1; when it reaches the interval, tracker = 0, the hysteresis is refilled, and
//                 scale *= growth up to the cap; under a finite cap, a product that is not finite is rejected
//
// Two deliberate differences from the sources: an interval that an order lowers below the tracker takes effect at the
// next good step, where their test for equality would miss it until the next overflow; and an ordered scale is clamped
// to [floor, cap].
//
// The scale is an fp32 number. During training it is updated on the device by the same rule (kernels::UpdateScale).
// This class holds the host's copy and applies orders to it. Thread-compatible.
class LossScaler {
 public:
  explicit LossScaler(const precision::LossScaleConfig& config);

  bool enabled() const { return enabled_; }
  float scale() const { return state_.scale; }

  // Updates the scale after one step, by the device's rule. `found_inf`: the step's gradients were not finite.
  ScaleChange Update(bool found_inf);

  // Applies a live order: a change of the scale or the interval that a user orders while the job runs. The new scale,
  // clamped to its range, starts a new interval. A scaler that is off ignores orders; a static one accepts the scale.
  void Set(std::optional<double> scale, std::optional<int> growth_interval);

  const kernels::ScalerRule& rule() const { return rule_; }
  const LossScalerState& state() const { return state_; }
  void Restore(const LossScalerState& state) { state_ = state; }

 private:
  const bool enabled_;
  const precision::ScaleRange range_;
  const kernels::ScalerRule rule_;
  LossScalerState state_;
};

}  // namespace ampd::amp
