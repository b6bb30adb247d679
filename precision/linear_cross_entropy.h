#pragma once

#include "graph/graph.h"

namespace ampd::precision {

// Combines a linear layer and the cross entropy of its results into one op, on devices that have such an op
// (FusesLinearCrossEntropy of precision/capability.h):
//
//   logits = aten.linear.default(input, weight, bias)
//   samples = aten.view.default(logits, ...)      any number of ops that only change the shape, or cast to fp32
//   loss = ampd.cross_entropy(samples, target, reduction)
//     =>
//   loss = ampd.linear_cross_entropy(input, weight, bias, target, reduction)
//
// The two are combined if every value between them is read once and is not an output, and if input, weight, bias and
// logits have one dtype. The new op computes its logits in the same dtype. Linear layers that compute in FP8
// ("ampd.linear_fp8") or on fp32 copies of their operands ("ampd.linear_wide") are left alone. The new node belongs to
// the linear layer's module.
graph::Graph WithLinearCrossEntropies(const graph::Graph& program);

}  // namespace ampd::precision
