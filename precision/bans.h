#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "precision/policy.h"

// Ops that a policy only computes in fp32.
namespace ampd::precision {

// Returns INVALID_ARGUMENT (reason BANNED_OP), naming the node, if the policy bans its op below fp32 and would compute
// it below fp32.
absl::Status CheckBan(const graph::Node& node, const OpDecision& decision, const ResolvedPolicy& policy);

// Checks all nodes and returns the error for the first banned one, as ApplyPrecision would.
absl::Status CheckBans(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
