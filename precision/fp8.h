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

// Which layers compute in FP8, and how they are scaled.
namespace ampd::precision {

// Whether any layer may compute in FP8: the preset, a recipe or a rule for modules asks for it.
bool UsesFp8(const v1::PrecisionPolicy& policy, const Preset& preset);

// The preset's recipe, or that of preset "fp8", with the policy's fields over it; nothing when no FP8 is asked for.
std::optional<Fp8Recipe> ResolveFp8Recipe(const v1::PrecisionPolicy& policy, const Preset& preset);

// What both features of a linear layer must be multiples of.
int64_t Fp8Multiple(const Fp8Recipe& recipe);

// Fills `fp8_layers`, and their places by module, of a policy whose recipe and rules are there: the linear layers whose
// products are computed in bf16 or fp32 and whose features fit, but for the graph's last one, the head, and for those
// of the first and the last numbered block ("transformer.h.0"; a layer of an MLP is a block). A rule that names FP8
// takes a layer in, one that names another format leaves it out. INVALID_ARGUMENT for a rule whose layers do not fit;
// warnings for others that do not.
absl::Status SelectFp8Layers(const v1::PrecisionPolicy& policy, const graph::Graph& graph, ResolvedPolicy& resolved);

// Why nothing computes in FP8 under a policy that asks for it; empty when something does or nothing shall.
std::string WhyNoFp8(const ResolvedPolicy& resolved);

// Which of the FP8 layers are so small that casting their operands is likely to cost more than the faster products win;
// empty when none is. Goes by torchao's filters, which were tuned on an H100 (torchao.float8, "tensorwise" and for
// blocks "rowwise"): a scale a tensor pays with more than 1024 outputs or 4096 inputs, finer scales with more than 2048
// outputs and 1024 inputs, and one of them above 4096 or 2048.
std::string WhyFp8IsSlow(const ResolvedPolicy& resolved, const graph::Graph& graph);

}  // namespace ampd::precision
