#pragma once

#include "graph/graph.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// If the device has ampd's CUDA kernels, registers the fused batch norm (graph/fused_batch_norms.h); otherwise does
// nothing:
//
//   ampd.batch_norm_add_relu(input (B, C, H, W), weight, bias, running_mean, running_var, residual or None, momentum,
//                            eps, cudnn_enabled, relu, num_results) -> num_results tensors like the input
//
// The op rounds at the same places as the separate ops. Only the statistics are summed in another order. Images that
// are not dense and channels-last, empty ones, and operands whose sizes do not match are passed to LibTorch's ops.
// These throw an error if sizes do not match. For the backward pass the op saves the input, two fp32 numbers for each
// channel, and, if there are an addition and a ReLU, one bit for each element. num_results is 1 or 2. Two results share
// their memory, and the backward pass adds their gradients, with the bits that autograd would compute. Deterministic.
void RegisterBatchNorm(executor::OpRegistry& registry, const ComputeDevice& device);

// Returns the program with its batch norms fused, or unchanged if the fused op is not registered.
graph::Graph WithRegisteredBatchNorms(const graph::Graph& program, const executor::OpRegistry& registry);

}  // namespace ampd::amp
