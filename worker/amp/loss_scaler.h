#pragma once

#include <cstdint>
#include <optional>

#include "precision/loss_scale.h"
#include "worker/kernels/step_control.h"

namespace ampd::amp {

using kernels::ScaleChange;
using LossScalerState = kernels::ScalerState;

// Multiplies the loss so that small gradients survive a narrow format. With the right settings, the rule below equals
// the rule of each of these projects:
//
// * torch.amp.GradScaler (torch/amp/grad_scaler.py) and Keras: hysteresis 1.
// * Apex (apex/amp/scaler.py): hysteresis 1 and a cap.
// * Megatron (grad_scaler.py) and DeepSpeed (deepspeed/runtime/fp16/loss_scaler.py): a hysteresis that is refilled
//   when an interval ends.
// * Apex's kernel (update_scale_hysteresis.cu) and DeepSpeed's consecutive_hysteresis: a hysteresis that is refilled
//   on every good step.
//
// The rule, where `tracker` counts the good steps (those without an overflow) of the current growth interval:
//
//   overflow:     tracker = 0; the hysteresis decreases by one; once it is used up, scale *= backoff, but not below the
//                 floor
//   good step:    tracker += 1; when it reaches the interval, tracker = 0, the hysteresis is refilled, and
//                 scale *= growth up to the cap; but if the cap is finite and the product is not, the scale stays
//
// A user may also set the scale or the interval while the job runs. Then this class differs from the projects above in
// two ways. The new scale is clamped to [floor, cap]. And if the new interval is below the tracker, the scale grows at
// the next good step. The projects above test whether tracker and interval are equal, so in their case the scale would
// not grow before the next overflow.
//
// The scale is an fp32 number. During training the kernels update it on the device, by the same rule
// (kernels::UpdateScale). This class holds a copy of the scale's state on the host. A scale or interval that a user
// orders is set in this copy. Thread-compatible.
class LossScaler {
 public:
  explicit LossScaler(const precision::LossScaleConfig& config);

  bool enabled() const { return enabled_; }
  float scale() const { return state_.scale; }

  // Updates the scale after one step, by the device's rule. `found_inf`: the step's gradients were not finite.
  ScaleChange Update(bool found_inf);

  // Sets the scale or the interval, when a user orders it while the job runs. A new scale is clamped to [floor, cap]
  // and starts a new interval. Does nothing if loss scaling is off. A static scale never grows, so setting its
  // interval has no effect.
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
