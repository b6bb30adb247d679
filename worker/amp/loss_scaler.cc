#include "worker/amp/loss_scaler.h"

namespace ampd::amp {

using Kind = precision::LossScaleConfig::Kind;

LossScaler::LossScaler(const precision::LossScaleConfig& config)
    : enabled_(config.kind != Kind::kOff),
      range_(precision::RangeOf(config)),
      rule_({.dynamic = config.kind == Kind::kDynamic,
             .refill_on_every_good_step = config.refill_on_every_good_step,
             .hysteresis = config.hysteresis,
             .growth_factor = config.growth_factor,
             .backoff_factor = config.backoff_factor,
             .floor = config.floor,
             .cap = config.cap}) {
  state_.scale = enabled_ ? static_cast<float>(config.initial) : 1.0f;
  state_.hysteresis_left = config.hysteresis;
  state_.growth_interval = config.growth_interval;
}

ScaleChange LossScaler::Update(bool found_inf) { return kernels::UpdateScale(rule_, state_, found_inf); }

void LossScaler::Set(std::optional<double> scale, std::optional<int> growth_interval) {
  if (!enabled()) {
    return;
  }
  if (scale.has_value()) {
    state_.scale = static_cast<float>(range_.Hold(*scale));
    state_.growth_tracker = 0;
  }
  state_.growth_interval = growth_interval.value_or(state_.growth_interval);
}

}  // namespace ampd::amp
