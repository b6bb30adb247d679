#include "precision/loss_scale_message.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "precision/policy.h"

namespace ampd::precision {
namespace {

using AtFloor = LossScaleConfig::AtFloor;
using Dynamic = v1::DynamicLossScale;
using OptimizerSkip = LossScaleConfig::OptimizerSkip;

AtFloor AtFloorOf(Dynamic::AtFloor at_floor) {
  return at_floor == Dynamic::FAIL        ? AtFloor::kFail
         : at_floor == Dynamic::FALL_BACK ? AtFloor::kFallBack
                                          : AtFloor::kClamp;
}

Dynamic::AtFloor ToMessage(AtFloor at_floor) {
  return at_floor == AtFloor::kFail       ? Dynamic::FAIL
         : at_floor == AtFloor::kFallBack ? Dynamic::FALL_BACK
                                          : Dynamic::CLAMP;
}

void SetDynamic(const LossScaleConfig& config, Dynamic* dynamic) {
  dynamic->set_initial(config.initial);
  dynamic->set_growth_factor(config.growth_factor);
  dynamic->set_backoff_factor(config.backoff_factor);
  dynamic->set_growth_interval(config.growth_interval);
  if (config.floor > 0) {
    dynamic->set_floor(config.floor);
  }
  if (std::isfinite(config.cap)) {
    dynamic->set_cap(config.cap);
  }
  dynamic->set_hysteresis(config.hysteresis);
  dynamic->set_hysteresis_refill(config.refill_on_every_good_step ? Dynamic::ON_EVERY_GOOD_STEP : Dynamic::ON_GROWTH);
  dynamic->set_at_floor(ToMessage(config.at_floor));
}

}  // namespace

void Override(const Dynamic& message, LossScaleConfig* config) {
  config->initial = message.has_initial() ? message.initial() : config->initial;
  config->growth_factor = message.has_growth_factor() ? message.growth_factor() : config->growth_factor;
  config->backoff_factor = message.has_backoff_factor() ? message.backoff_factor() : config->backoff_factor;
  config->growth_interval = message.has_growth_interval() ? message.growth_interval() : config->growth_interval;
  config->floor = message.has_floor() ? message.floor() : config->floor;
  config->cap = message.has_cap() ? message.cap() : config->cap;
  config->hysteresis = message.has_hysteresis() ? message.hysteresis() : config->hysteresis;
  if (message.hysteresis_refill() != Dynamic::HYSTERESIS_REFILL_UNSPECIFIED) {
    config->refill_on_every_good_step = message.hysteresis_refill() == Dynamic::ON_EVERY_GOOD_STEP;
  }
  if (message.at_floor() != Dynamic::AT_FLOOR_UNSPECIFIED) {
    config->at_floor = AtFloorOf(message.at_floor());
  }
}

v1::LossScale ToMessage(const LossScaleConfig& config) {
  v1::LossScale message;
  message.set_optimizer_skip(config.optimizer_skip == OptimizerSkip::kAllTogether ? v1::LossScale::ALL_TOGETHER
                                                                                  : v1::LossScale::EACH_ALONE);
  switch (config.kind) {
    case LossScaleConfig::Kind::kOff:
      message.mutable_off();
      break;
    case LossScaleConfig::Kind::kStatic:
      message.mutable_fixed()->set_scale(config.initial);
      break;
    case LossScaleConfig::Kind::kDynamic:
      SetDynamic(config, message.mutable_dynamic());
  }
  return message;
}

absl::StatusOr<LossScaleConfig> LossScaleOf(const v1::LossScale& message) {
  v1::PrecisionPolicy policy;
  *policy.mutable_loss_scale() = message;
  if (const auto violations = ValidateAdmittedPolicy(policy); !violations.empty()) {
    return InvalidFields(violations);
  }
  LossScaleConfig config;
  if (message.has_fixed()) {
    config.kind = LossScaleConfig::Kind::kStatic;
    config.initial = message.fixed().scale();
  } else if (message.has_dynamic()) {
    config.kind = LossScaleConfig::Kind::kDynamic;
    config.cap = std::numeric_limits<double>::infinity();
    Override(message.dynamic(), &config);
  }
  config.optimizer_skip =
      message.optimizer_skip() == v1::LossScale::ALL_TOGETHER ? OptimizerSkip::kAllTogether : OptimizerSkip::kEachAlone;
  return config;
}

}  // namespace ampd::precision
