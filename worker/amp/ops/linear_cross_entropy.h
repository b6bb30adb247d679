#pragma once

#include "worker/amp/step/step_kernels.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// If the device has CUDA kernels, registers a linear layer with the cross entropy of its results, for a GPU
// (precision/pass.h); otherwise does nothing:
//
//   ampd.linear_cross_entropy(input (*, C), weight (V, C), bias (V) or None, target (N) int64, reduction) -> fp32
//   scalar
//
// N is the number of rows of the input. Logits are computed in the format of the input, and the loss as by
// ampd.cross_entropy (cross_entropy.h). If V is not a multiple of 8, the weight is copied into a matrix with more
// rows, graph::PaddedClasses(V); the added rows are 0. All three products have this number of classes, because cuBLAS
// has only slow kernels for matrices whose rows are not aligned. The loss ignores the added classes, and their
// gradient is 0. The backward pass writes the gradient of the logits into the memory of the logits. So a second
// backward pass is refused. Deterministic if LibTorch's products are.
void RegisterLinearCrossEntropy(executor::OpRegistry& registry, const ComputeDevice& device);

}  // namespace ampd::amp
