#pragma once

#include <string_view>

#include "graph/graph.h"

namespace ampd::graph {

// A batch norm in training mode, together with the addition and the ReLU that follow it:
//
//   ampd.batch_norm_add_relu(input (B, C, H, W), weight, bias, running_mean, running_var, residual, momentum, eps,
//                            cudnn_enabled, relu, num_results) -> a tensor like the input, once or twice
//
// The op has the arguments of aten.batch_norm, and three more. `residual` (B, C, H, W), or None, is added to the norm's
// result. `relu` says whether ReLU follows. If `num_results` is 2, the op returns its result twice, as two tensors with
// the same memory. Each has a gradient of its own, and the op's backward pass adds the two gradients.
inline constexpr std::string_view kFusedBatchNorm = "ampd.batch_norm_add_relu";

// Returns the program with its batch norms in training mode replaced by kFusedBatchNorm. The fused node includes what
// reads the result of the norm: an addition of a value of the same type, a ReLU, or both, in this order. An op is
// included only if it is the only reader of the value before it and in the same checkpoint segment. The fused node
// stands in the place of the last op, has the module of the norm, and the last op's output.
//
// If there are an addition and a ReLU, and two nodes of the same checkpoint segment read the result, then the fused
// node has two results, one for each of these readers. Without this, autograd would add the two gradients in a pass of
// its own. A residual network's blocks end like this: the next block's first convolution and its addition read the
// result.
//
// Three kinds of norms stay unchanged: norms of other than four dimensions, norms with parameters or statistics below
// fp32, and norms whose statistics another node reads too. Run this pass last, because other passes do not know
// kFusedBatchNorm. REQUIRES: there are no in-place ops (WithoutInPlaceOps).
Graph WithFusedBatchNorms(const Graph& program);

}  // namespace ampd::graph
