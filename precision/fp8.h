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

// The FP8 recipe of a policy. If the policy sets no scaling, the scaling is that of the policy's preset, or kCurrent if
// the preset has none. Every other field that the policy does not set is that of the FP8 preset with this scaling
// ("fp8", "fp8-delayed" or "fp8-block"). Nothing if FP8 is not requested.
std::optional<Fp8Recipe> ResolveFp8Recipe(const v1::PrecisionPolicy& policy, const Preset& preset);

// A linear layer can compute in FP8 only if the number of its input features and the number of its output features are
// multiples of the number that this function returns.
int64_t Fp8Multiple(const Fp8Recipe& recipe);

// Selects the layers that compute in FP8, and writes them to `fp8_layers` and `fp8_layers_by_module` of `resolved`.
// REQUIRES: the recipe and the rules of `resolved` are filled. By default it selects the linear layers whose products
// are computed in bf16 or fp32 and whose features are multiples of Fp8Multiple. The default excludes the graph's last
// linear layer (the head) and the layers in the first and the last numbered block ("transformer.h.0"; in an MLP each
// layer is a block). A rule that names FP8 adds a layer, a rule that names another format excludes it. Returns
// INVALID_ARGUMENT if a rule adds a layer whose features do not fit; adds a warning for each other layer whose features
// do not fit.
absl::Status SelectFp8Layers(const v1::PrecisionPolicy& policy, const graph::Graph& graph, ResolvedPolicy& resolved);

// The reason why no layer computes in FP8 although the policy requests FP8. Empty if a layer does, or if FP8 is not
// requested.
std::string WhyNoFp8(const ResolvedPolicy& resolved);

// A warning about FP8 layers that are so small that casting their operands likely takes more time than the faster
// products save; empty if there are none. Uses torchao's filters, which were tuned on an H100 (torchao.float8,
// "tensorwise", and "rowwise" for blocks). FP8 with one scale per tensor pays for a layer with more than 1024 outputs
// or more than 4096 inputs. FP8 with finer scales pays for a layer that fulfils both conditions: it has more than 2048
// outputs and more than 1024 inputs, and it has more than 4096 outputs or more than 2048 inputs.
std::string WhyFp8IsSlow(const ResolvedPolicy& resolved, const graph::Graph& graph);

}  // namespace ampd::precision
