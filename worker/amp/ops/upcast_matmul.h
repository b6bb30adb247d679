#pragma once

#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers matrix products that compute in fp32 for policies in 16 bits. They are used on a CPU that multiplies 16-bit
// numbers more slowly than fp32, wrongly (precision::MiscomputesNarrowConv), or not at all:
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
// Inputs, results, gradients and the tensors that an op saves for the backward pass are float16 or bfloat16, in the
// format of the first argument. Each is rounded once. (Attention also saves the sums of its exponentials, in fp32.)
// Inside an op, the inputs are upcast and products are summed in fp32, as tensor cores do. So overflow, underflow and
// rounding are the same as on a device that multiplies in that format, but the speed is that of fp32. The recurrent
// ops also take and return 16-bit numbers, but keep their state between positions, and save it, in fp32.
// Deterministic for a fixed number of threads.
void RegisterUpcastMatmul(executor::OpRegistry& registry);

}  // namespace ampd::amp
