#pragma once

#include "graph/graph.h"

namespace ampd::precision {

// Replaces every layer norm of a program, to which a precision policy was applied, by one of ampd's two ops below. The
// op also replaces neighbouring additions and casts, which its kernels compute in the same pass
// (worker/amp/ops/layer_norm.h):
//
// * "ampd.layer_norm"(input, normalized_shape, weight, bias, eps, dtype). It replaces the norm, and the cast of its
//   result from fp32 to a 16-bit dtype if only the cast reads the result. `dtype` is that of the result.
// * "ampd.add_layer_norm"(self, other, normalized_shape, weight, bias, eps, sum_dtype, dtype) -> (sum, result). It also
//   replaces the addition whose result is normalized, if the norm is the first node that reads the sum, and casts of
//   16-bit activations that only the addition reads.
//
// All other values keep their ids, names and types. A new node stands in the place of the norm, with the norm's module
// path. Norms and additions in dtypes other than fp32, bf16 and fp16 stay.
graph::Graph WithFusedNorms(const graph::Graph& program);

}  // namespace ampd::precision
