#pragma once

#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers the cross entropy over many classes (precision/pass.h):
//
//   ampd.cross_entropy(self (N, classes), target (N) int64, reduction) -> fp32 scalar
//
// Loss and gradient equal those of aten.cross_entropy_loss of self in fp32, to the last bit; rows with the target -100
// are left out. `reduction` is LibTorch's 1 (mean) or 2 (sum). The op processes the rows in parts
// (graph::CrossEntropyRows) and computes the logarithms of a part again in the backward pass. It writes the gradient
// over the logits, in their format, unless something else still holds them, so it never holds a second tensor of that
// size. Deterministic.
void RegisterCrossEntropy(executor::OpRegistry& registry);

}  // namespace ampd::amp
