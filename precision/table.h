#pragma once

#include "ampd/v1/precision.pb.h"
#include "precision/policy.h"

namespace ampd::precision {

// Converts a resolved policy (policy.h) to a message for clients.
v1::PolicyTable ToMessage(const ResolvedPolicy& policy);

v1::OpRule::Class ToMessage(graph::OpClass op_class);

}  // namespace ampd::precision
