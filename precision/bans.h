#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "precision/policy.h"

// Finds ops that a policy must not compute below fp32.
namespace ampd::precision {

// Returns INVALID_ARGUMENT (reason BANNED_OP), naming the node, if `decision` bans the node's op below fp32 and the
// policy computes in a format below fp32.
absl::Status CheckBan(const graph::Node& node, const OpDecision& decision, const ResolvedPolicy& policy);

// Checks all nodes of a graph. Returns the error of CheckBan for the first banned node, as ApplyPrecision would.
absl::Status CheckBans(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
