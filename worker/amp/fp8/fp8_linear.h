#pragma once

#include "worker/amp/fp8/fp8_layers.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers the linear layer whose products are in FP8:
//
//   ampd.linear_fp8(input (*, I), weight (O, I), bias (O) or None, layer, forward, input_gradient, weight_gradient,
//                   [input_amax (1, 1)]) -> (*, O)
//
// `layer` is an index into `layers`. The bools say which of the products are in FP8; the others are in the input's
// format. `input_amax` is the largest magnitude of the input, in fp32, if an earlier op has found it
// (graph/norm_amaxes.h); the layer then does not search for it. It has no gradient.
//
//   forward            input (N, I), weight (O, I)      summed over I
//   input gradient     gradient (N, O), weight (O, I)   summed over O
//   weight gradient    gradient (N, O), input (N, I)    summed over N
//
// Results and gradients have the dtypes of input and weight, which are bf16 or fp32, rounded once from sums in fp32.
// The bias and its gradient are not in FP8. Two things are saved for the backward pass: the weight itself, whose FP8
// forms come from Fp8Layers again; and the input in FP8, transposed, with blocks along N. A layer that
// was demoted from FP8, because its errors were too large, is computed as a plain linear layer. Deterministic for a
// fixed number of threads.
void RegisterFp8Linear(executor::OpRegistry& registry, const c10::intrusive_ptr<Fp8Layers>& layers);

}  // namespace ampd::amp
