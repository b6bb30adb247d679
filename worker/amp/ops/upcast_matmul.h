#pragma once

#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers the products that policies in 16 bits use on a CPU that multiplies such numbers more slowly than fp32,
// wrongly (precision::MiscomputesNarrowConv), or not at all:
//
//   ampd.linear_wide(input (*, I), weight (O, I), bias (O) or None) -> (*, O)
//   ampd.conv2d_wide(input (B, C, H, W), weight (O, C/groups, kH, kW), bias (O) or None, stride, padding, dilation,
//                    groups) -> (B, O, H', W')
//   ampd.conv_transpose2d_wide(input (B, C, H, W), weight (C, O/groups, kH, kW), bias (O) or None, stride, padding,
//                              dilation, groups, output_padding) -> (B, O, H', W')
//   ampd.attention_wide(query (B, heads, T, D), key (B, heads, S, D), value (B, heads, S, D), is_causal, mask)
//                       -> as the query. `mask`: None, truth values, or numbers that are added to the scores, in two
//                       or four dimensions that broadcast to (B, heads, T, S). For other shapes, and for a mask that
//                       has a gradient, the op saves what LibTorch's attention saves for fp32 operands.
//   ampd.lstm_wide(input, [h, c], [w_ih, w_hh, b_ih, b_hh of each layer and direction], has_biases, num_layers,
//                  dropout, train, bidirectional, batch_first) -> output, h, c: as aten.lstm.input
//   ampd.gru_wide(input, h, [...], the same) -> output, h: as aten.gru.input
//
// Inputs, results, gradients and what is saved for the backward pass are float16 or bfloat16, all of the first
// argument's type, each rounded once (the sums of attention's exponentials are fp32). Inside, numbers are upcast and
// products are summed in fp32, as tensor cores do. So overflow, underflow and rounding are those of a device with
// products of that format; the speed is fp32's. The recurrent ops have arguments, results and gradients in 16 bits;
// their state between positions, and what they save, is fp32. Deterministic for a fixed number of threads.
void RegisterUpcastMatmul(executor::OpRegistry& registry);

}  // namespace ampd::amp
