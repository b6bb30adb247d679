#pragma once

#include "graph/graph.h"

namespace ampd::precision {

// Replaces every linear layer with a bias by "ampd.linear"(input, weight, bias), which sums the gradient of the bias
// with ampd's own kernel (worker/amp/ops/linear.h). Only layers whose input, weight, bias and result have one dtype,
// fp32, bf16 or fp16, are replaced, and only if the input has at least two dimensions and the layer runs with
// gradients. Linear layers that compute in FP8 ("ampd.linear_fp8") or on fp32 copies of their operands
// ("ampd.linear_wide") stay. All values keep their ids, names and types.
graph::Graph WithFusedLinears(const graph::Graph& program);

}  // namespace ampd::precision
