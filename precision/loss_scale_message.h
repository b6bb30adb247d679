#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "precision/loss_scale.h"

namespace ampd::precision {

// Sets the values of `config` that the message sets.
void Override(const v1::DynamicLossScale& message, LossScaleConfig* config);

// The rule with every value filled in. An unset floor means no floor, and an unset cap no cap.
v1::LossScale ToMessage(const LossScaleConfig& config);

// The inverse of ToMessage; no preset fills in a value. INVALID_ARGUMENT with all violations if a value is out of
// range.
absl::StatusOr<LossScaleConfig> LossScaleOf(const v1::LossScale& message);

}  // namespace ampd::precision
