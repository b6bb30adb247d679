#pragma once

#include "absl/status/statusor.h"
#include "ampd/v1/precision.pb.h"
#include "precision/loss_scale.h"

namespace ampd::precision {

// Copies the fields that are set in the message to `config`, and keeps the others.
void Override(const v1::DynamicLossScale& message, LossScaleConfig* config);

// Converts a loss-scale rule to a message with every value. In this message an unset floor means no floor, and an unset
// cap means no cap.
v1::LossScale ToMessage(const LossScaleConfig& config);

// Converts a message back to the rule from which ToMessage made it. A value that the message does not set has the
// default of LossScaleConfig, not the value of a preset; an unset cap means no cap. Returns INVALID_ARGUMENT with all
// violations if values are out of range.
absl::StatusOr<LossScaleConfig> LossScaleOf(const v1::LossScale& message);

}  // namespace ampd::precision
