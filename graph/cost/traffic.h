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

// Estimates one forward and backward pass on a GPU, without the optimizer. Each kernel reads its arguments once and
// writes its results once; nothing stays in a cache between two kernels. What is different is counted as the kernels do
// it:
//
//   * a result that shows the memory of an argument moves nothing,
//   * a matrix product or convolution reads the gradient of its result once for each gradient that it computes,
//   * a batch norm in training mode reads its input, and in the backward pass its gradient too, once for the sums over
//     the batch and once for the result,
//   * a gradient that is added to an earlier one of the same value is read and the sum is written,
//   * "ampd.cross_entropy" over bf16 logits: by `has_loss_kernels`, one read of the logits and their gradient in their
//     place; otherwise LibTorch's ops on a part of the rows at a time, in fp32.
//
// Nodes of a checkpoint segment run twice. REQUIRES: as EstimateRun.
StepTraffic EstimateTraffic(const Graph& program, int64_t batch_size, bool has_loss_kernels);

}  // namespace ampd::graph
