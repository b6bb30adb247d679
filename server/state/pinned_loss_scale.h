#pragma once

#include <string>

#include "ampd/internal/journal.pb.h"
#include "ampd/v1/precision.pb.h"

namespace ampd::server {

// Returns the loss-scale rule that the job keeps for attempts with this preset. Null if the job has not had an attempt
// with this preset.
const v1::LossScale* FindPinnedLossScale(const internal::JobRecord& record, const std::string& preset);

// Returns the loss-scale rule for an attempt with this preset. This is the rule that the job keeps. For the first
// attempt with the preset, it is the rule of the spec and the preset in this version of the server, with every value
// filled in. REQUIRES: the preset exists.
v1::LossScale LossScaleFor(const internal::JobRecord& record, const std::string& preset);

}  // namespace ampd::server
