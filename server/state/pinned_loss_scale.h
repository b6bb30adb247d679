#pragma once

#include <string>

#include "ampd/internal/journal.pb.h"
#include "ampd/v1/precision.pb.h"

namespace ampd::server {

// The loss-scale rule that the job keeps for attempts with this preset; null if none was assigned with it yet.
const v1::LossScale* FindPinnedLossScale(const internal::JobRecord& record, const std::string& preset);

// The rule for an attempt with this preset: the one that the job keeps or, for the first such attempt, what its spec
// and the preset say in this version of the server, with every value filled in. REQUIRES: the preset exists.
v1::LossScale LossScaleFor(const internal::JobRecord& record, const std::string& preset);

}  // namespace ampd::server
