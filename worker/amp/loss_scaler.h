#pragma once

#include <cstdint>
#include <optional>

#include "precision/policy.h"

namespace ampd::amp {

// What an update did to the scale.
enum class ScaleChange { kNone, kGrown, kBackedOff, kAtFloor };

// Everything that a checkpoint must hold of a scaler; its configuration comes from the policy and from orders.
struct LossScalerState {
  float scale = 1;
  int growth_tracker = 0;   // applied steps since the last change
  int hysteresis_left = 1;  // overflows that are still tolerated, the one that backs off included
  int growth_interval = 0;  // as ordered last
  friend bool operator==(const LossScalerState&, const LossScalerState&) = default;
};

// Multiplies the loss so that small gradients survive a narrow format. One rule covers torch.amp.GradScaler and Keras
// (hysteresis 1), Apex (a cap), Megatron and DeepSpeed (hysteresis refilled when an interval ends) and Apex's kernel
// and DeepSpeed's consecutive_hysteresis (refilled on every good step); reference: torch/amp/grad_scaler.py,
// apex/amp/scaler.py and update_scale_hysteresis.cu, deepspeed/runtime/fp16/loss_scaler.py, megatron's grad_scaler.py.
//
//   overflow:     tracker = 0; the hysteresis is used up by one; once it is used up, scale *= backoff, not below the
//                 floor
//   no overflow:  tracker += 1; once it is at the interval, tracker = 0, the hysteresis is refilled, and scale *=
//   growth
//                 up to the cap; a product that is not finite is not taken under a finite cap
//
// On purpose unlike the others: an interval that an order lowers below the tracker takes effect at the next good step,
// where their test for equality would miss it until the next overflow; and a scale that an order put outside of floor
// and cap is left there until it moves by itself.
//
// The scale is a fp32 number, as on a device. Read scale() before the backward pass and unscale with that same value;
// Update() comes last. Thread-compatible.
class LossScaler {
 public:
  explicit LossScaler(const precision::LossScaleConfig& config);

  bool enabled() const { return config_.kind != precision::LossScaleConfig::Kind::kOff; }
  float scale() const { return state_.scale; }

  // REQUIRES: called once a step, after the gradients were unscaled with scale().
  ScaleChange Update(bool found_inf);

  // Live control: the new scale starts a new interval. Orders to a scaler that is off are ignored; a static one takes
  // the scale.
  void Set(std::optional<double> scale, std::optional<int> growth_interval);

  const LossScalerState& state() const { return state_; }
  void Restore(const LossScalerState& state) { state_ = state; }

 private:
  ScaleChange OnOverflow();
  ScaleChange OnGoodStep();

  precision::LossScaleConfig config_;
  LossScalerState state_;
};

}  // namespace ampd::amp
