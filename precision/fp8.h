#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/error.h"
#include "graph/graph.h"
#include "precision/policy.h"

namespace ampd::v1 {
class PrecisionPolicy;
}  // namespace ampd::v1

// Selects the layers that compute in FP8, and their scaling.
namespace ampd::precision {

// Whether any layer may compute in FP8: a preset, a recipe or a module rule requests it.
bool UsesFp8(const v1::PrecisionPolicy& policy, const Preset& preset);

// The preset's recipe, or that of preset "fp8", overridden by the policy's fields; nothing if FP8 is not requested.
std::optional<Fp8Recipe> ResolveFp8Recipe(const v1::PrecisionPolicy& policy, const Preset& preset);

// The number that both features of a linear layer must be multiples of.
int64_t Fp8Multiple(const Fp8Recipe& recipe);

// Fills `fp8_layers` and its index by module. REQUIRES: the policy's recipe and rules are filled. Selected are the
// linear layers whose products are computed in bf16 or fp32 and whose features fit, except for the graph's last one
// (the head) and those of the first and the last numbered block ("transformer.h.0"; a layer of an MLP is a block). A
// rule that names FP8 adds a layer, a rule that names another format excludes it. Returns INVALID_ARGUMENT for a rule
// whose layers do not fit; adds warnings for other layers that do not.
absl::Status SelectFp8Layers(const v1::PrecisionPolicy& policy, const graph::Graph& graph, ResolvedPolicy& resolved);

// Why nothing computes in FP8 under a policy that requests it; empty if something does or FP8 is not requested.
std::string WhyNoFp8(const ResolvedPolicy& resolved);

// Describes FP8 layers so small that casting their operands likely costs more than the faster products gain; empty if
// there are none. Uses torchao's filters, which were tuned on an H100 (torchao.float8, "tensorwise", and "rowwise" for
// blocks): one scale per tensor pays with more than 1024 outputs or more than 4096 inputs; finer scales pay with more
// than 2048 outputs and more than 1024 inputs, if also outputs exceed 4096 or inputs exceed 2048.
std::string WhyFp8IsSlow(const ResolvedPolicy& resolved, const graph::Graph& graph);

}  // namespace ampd::precision
