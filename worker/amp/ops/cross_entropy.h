#pragma once

#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers the cross entropy over many classes (precision/pass.h):
//
//   ampd.cross_entropy(self (N, classes), target (N) int64, reduction) -> fp32 scalar
//
// Loss and gradient are those of aten.cross_entropy_loss of self in fp32, to the last bit, rows with the target -100
// left out; `reduction` is its 1 (mean) or 2 (sum). It goes through the rows in parts (graph::CrossEntropyRows) and
// computes the logarithms of a part again in the backward pass. The gradient is written over the logits, in whatever
// format they are, unless something else still holds these: nothing else of that size is ever held. Deterministic.
void RegisterCrossEntropy(executor::OpRegistry& registry);

}  // namespace ampd::amp
