#pragma once

#include <vector>

#include "absl/status/status.h"
#include "graph/dtype.h"
#include "precision/policy.h"

// Finds parameters that a policy stores below fp32 without a master, so that they lose small updates.
namespace ampd::precision {

// The formats of the parameters that have no master and are rounded to nearest; each once. Stochastic rounding applies
// to bf16 parameters only. REQUIRES: the table has its parameters.
std::vector<graph::Dtype> BareDtypes(const ResolvedPolicy& resolved);

// Refuses fp16 parameters without a master that only module rules ask for; ResolveFormats refuses those that the policy
// itself asks for. Returns INVALID_ARGUMENT, naming precision.module_rules, unless IsHarmMeant. REQUIRES: the table has
// its parameters.
absl::Status RefuseBareFp16(const v1::PrecisionPolicy& policy, OptimizerKind optimizer, const ResolvedPolicy& resolved);

}  // namespace ampd::precision
