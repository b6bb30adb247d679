#pragma once

#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers the products that fp16 policies use on a CPU, which has no fp16 arithmetic worth calling:
//
//   ampd.linear_fp16(input (*, I), weight (O, I), bias (O) or None) -> (*, O)
//   ampd.conv2d_fp16(input (B, C, H, W), weight (O, C/groups, kH, kW), bias (O) or None, stride, padding, dilation,
//                    groups) -> (B, O, H', W')
//   ampd.conv_transpose2d_fp16(input (B, C, H, W), weight (C, O/groups, kH, kW), bias (O) or None, stride, padding,
//                              dilation, groups, output_padding) -> (B, O, H', W')
//   ampd.attention_fp16(query, key, value, is_causal, mask) -> as the query, all (B, heads, T, D); the mask bool,
//   repeated
//                       to (B, heads, T, T), or None
//   ampd.lstm_fp16(input, [h, c], [w_ih, w_hh, b_ih, b_hh of each layer and direction], has_biases, num_layers,
//                  dropout, train, bidirectional, batch_first) -> output, h, c: as aten.lstm.input
//   ampd.gru_fp16(input, h, [...], the same) -> output, h: as aten.gru.input
//
// Of the recurrent ones, fp16 are arguments, results and gradients; the state goes from position to position in fp32,
// and so is what is saved.
//
// Inputs, results, gradients and what is saved for the backward pass are fp16 (the sums of attention's exponentials:
// fp32), each rounded once; inside, products are
// summed in fp32, as tensor cores do. So overflow, underflow and rounding are those of an fp16 device; the speed is
// not. Deterministic for a fixed number of threads.
void RegisterEmulatedOps(executor::OpRegistry& registry);

}  // namespace ampd::amp
