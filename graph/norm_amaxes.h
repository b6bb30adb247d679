#pragma once

#include <optional>

#include "graph/graph.h"

namespace ampd::graph {

// Lets layer norms find the amax (largest magnitude) of their results for the FP8 layers that read these results. The
// kernel of the norm has each number of its result in a register. Without its amax, an FP8 layer with one scale per
// tensor reads the whole result once more, with a kernel of its own (worker/amp/fp8/fp8_quantizer.h).
//
// Changes each "ampd.layer_norm" and "ampd.add_layer_norm" (precision/fused_norms.h) whose result, or a view of the
// whole result, is the input of an "ampd.linear_fp8" that quantizes its input. The norm gets the argument
// "finds_amax"=True and one more result, which is its last: the amax (1, 1), in fp32. Each of these FP8 layers gets the
// argument "input_amax", which is this result. Everything else stays. REQUIRES: the FP8 layers do not scale blocks.
Graph WithNormAmaxes(const Graph& program);

// The result of a node that is the amax of the result before it; nothing if the node has no such result. It has no
// gradient.
std::optional<ValueId> AmaxFoundBy(const Node& node);

}  // namespace ampd::graph
