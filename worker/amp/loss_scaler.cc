#include "worker/amp/loss_scaler.h"

#include <algorithm>
#include <cmath>

namespace ampd::amp {

using Kind = precision::LossScaleConfig::Kind;

LossScaler::LossScaler(const precision::LossScaleConfig& config) : config_(config) {
  state_.scale = enabled() ? static_cast<float>(config.initial) : 1.0f;
  state_.hysteresis_left = config.hysteresis;
  state_.growth_interval = config.growth_interval;
}

ScaleChange LossScaler::Update(bool found_inf) {
  if (config_.kind != Kind::kDynamic) {
    return ScaleChange::kNone;
  }
  return found_inf ? OnOverflow() : OnGoodStep();
}

ScaleChange LossScaler::OnOverflow() {
  state_.growth_tracker = 0;
  state_.hysteresis_left = std::max(0, state_.hysteresis_left - 1);
  if (state_.hysteresis_left > 0) {
    return ScaleChange::kNone;
  }
  const auto floor = static_cast<float>(config_.floor);
  if (state_.scale <= floor) {  // without a floor: 0, where halving ends
    return ScaleChange::kAtFloor;
  }
  state_.scale = std::max(static_cast<float>(state_.scale * config_.backoff_factor), floor);
  return ScaleChange::kBackedOff;
}

ScaleChange LossScaler::OnGoodStep() {
  if (config_.refill_on_every_good_step) {
    state_.hysteresis_left = config_.hysteresis;
  }
  // Not an equality: an interval that an order lowered below the tracker takes effect now.
  if (++state_.growth_tracker < state_.growth_interval) {
    return ScaleChange::kNone;
  }
  state_.growth_tracker = 0;
  state_.hysteresis_left = config_.hysteresis;
  const auto grown = static_cast<float>(state_.scale * config_.growth_factor);
  if (!std::isfinite(grown) && std::isfinite(config_.cap)) {
    return ScaleChange::kNone;
  }
  const float next = std::min(grown, static_cast<float>(config_.cap));
  if (next <= state_.scale) {
    return ScaleChange::kNone;
  }
  state_.scale = next;
  return ScaleChange::kGrown;
}

void LossScaler::Set(std::optional<double> scale, std::optional<int> growth_interval) {
  if (!enabled()) {
    return;
  }
  if (scale.has_value()) {
    state_.scale = static_cast<float>(*scale);
    state_.growth_tracker = 0;
  }
  state_.growth_interval = growth_interval.value_or(state_.growth_interval);
}

}  // namespace ampd::amp
