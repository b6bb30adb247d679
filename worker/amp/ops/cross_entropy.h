#pragma once

#include "worker/amp/step/step_kernels.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers the cross entropy over many classes (precision/pass.h):
//
//   ampd.cross_entropy(self (N, classes), target (N) int64, reduction) -> fp32 scalar
//
// Rows with the target -100 are left out. `reduction` is LibTorch's 1 (mean) or 2 (sum). The backward pass writes the
// gradient over the logits, in their format, so that the op needs no second tensor of that size. After that, a second
// backward pass is refused. If something else still holds the logits, the gradient gets memory of its own.
// Deterministic.
//
// On a CPU, loss and gradient equal those of aten.cross_entropy_loss of self in fp32, to the last bit. The op processes
// the rows in parts (graph::CrossEntropyRows) and computes the logarithms of a part again in the backward pass.
// LibTorch throws an error if a target is not a class.
//
// With the CUDA kernels of `device` (worker/kernels/cuda/loss_kernels.h), the forward pass reads the logits once and
// the backward pass reads and writes them once. Loss and gradient equal LibTorch's up to the order of the sums, with
// two exceptions. Logits of rows that are left out are not read, so a NaN among them has no effect. A target that is
// not a class makes the loss NaN, so that the step is skipped; LibTorch's device-side assertion would end the process.
// Targets of the built-in data sets were checked on the host before.
void RegisterCrossEntropy(executor::OpRegistry& registry, const ComputeDevice& device);

}  // namespace ampd::amp
