#pragma once

#include <cstdint>

#include "graph/graph.h"

// Estimates the bytes that a training step moves between a GPU's memory and its processors, from the graph alone.
namespace ampd::graph {

struct StepTraffic {
  int64_t forward_bytes = 0;
  int64_t backward_bytes = 0;
  int64_t total() const { return forward_bytes + backward_bytes; }
};

// Estimates the bytes that one forward and backward pass moves on a GPU, without the optimizer. In general, each kernel
// reads its arguments once and writes its results once, and nothing stays in a cache between two kernels. The
// exceptions are:
//
//   * a result that is a view of an argument moves nothing,
//   * a matrix product or convolution reads the gradient of its result once for each gradient that it computes,
//   * a batch norm in training mode reads its input twice: once for the sums over the batch and once for the result.
//     Its backward pass reads the input and the result's gradient twice each,
//   * a fused batch norm with an addition and a ReLU writes one bit per element for the backward pass, which reads it.
//     If such a norm has two results, its backward pass reads the gradients of both once, and writes their masked sum
//     as the gradient of the addend; then it reads this sum once,
//   * to add a gradient to an earlier gradient of the same value, a kernel reads both and writes the sum,
//   * "ampd.cross_entropy" over bf16 logits: if `has_loss_kernels`, each pass reads the logits once, and the backward
//     pass writes their gradient over them; otherwise LibTorch's ops process a part of the rows at a time, in fp32,
//   * if `finds_fp8_amaxes`, an FP8 linear layer reads its weight, its input, and the gradient of its result once more,
//     to find their amaxes (largest magnitudes) before it converts them to FP8. It does not read its input again if
//     the amax is known (graph/norm_amaxes.h). This holds for FP8 with the scale that follows from the tensor itself.
//
// Nodes of a checkpoint segment run twice. REQUIRES: every op is in the op table or one that ApplyPrecision or
// WithFusedBatchNorms inserts; the program has one output, a scalar loss.
StepTraffic EstimateTraffic(const Graph& program, int64_t batch_size, bool has_loss_kernels,
                            bool finds_fp8_amaxes = false);

}  // namespace ampd::graph
