#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "precision/policy.h"

// Ops that a policy computes in fp32 alone.
namespace ampd::precision {

// INVALID_ARGUMENT (reason BANNED_OP), naming the node, where the policy bans it below fp32, and computes below fp32.
absl::Status CheckBan(const graph::Node& node, const OpDecision& decision, const ResolvedPolicy& policy);

// The same of the first node of the graph that is banned: what ApplyPrecision would say.
absl::Status CheckBans(const graph::Graph& graph, const ResolvedPolicy& policy);

}  // namespace ampd::precision
