#pragma once

#include "worker/amp/step/step_kernels.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers linear layers with a bias for GPUs (precision/fused_linears.h):
//
//   ampd.linear(input (*, I), weight (O, I), bias (O)) -> (*, O)
//
// The forward pass is LibTorch's; the op saves input and weight. In the backward pass the gradients of input and weight
// are LibTorch's products, and the gradient of the weight has the weight's layout, row-major or transposed. The
// gradient of the bias is summed in fp32 by a CUDA kernel (worker/kernels/cuda/column_sum_kernels.h) and rounded once;
// deterministic. Without kernels, for empty tensors, for inputs of less than two dimensions, and for operands that do
// not all have one of the dtypes fp32, bf16 and fp16, the op is LibTorch's.
void RegisterLinear(executor::OpRegistry& registry, const ComputeDevice& device);

}  // namespace ampd::amp
