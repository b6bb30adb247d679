#pragma once

#include <string>

#include "ampd/internal/journal.pb.h"
#include "ampd/v1/precision.pb.h"

namespace ampd::server {

// The loss-scale rule that the job keeps for attempts with this preset; null if no attempt with it was assigned yet.
const v1::LossScale* FindPinnedLossScale(const internal::JobRecord& record, const std::string& preset);

// The rule for an attempt with this preset. This is the rule that the job keeps; for the first attempt with the preset,
// it is what the spec and the preset specify in this version of the server, with every value filled in. REQUIRES: the
// preset exists.
v1::LossScale LossScaleFor(const internal::JobRecord& record, const std::string& preset);

}  // namespace ampd::server
