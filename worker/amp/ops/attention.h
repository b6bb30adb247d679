#pragma once

#include "graph/graph.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// If this CPU multiplies bf16 numbers, registers attention in bf16; otherwise does nothing:
//
//   ampd.attention_bf16(query, key, value, is_causal) -> as the query, all (B, heads, T, D)
//
// The op replaces LibTorch's flash attention, whose bf16 products are fast only on CPUs made by Intel. It has the
// same outputs, saves the same tensors for the backward pass and rounds at the same places; only the last bits can
// differ. Shapes and strides that its kernel does not support are passed to LibTorch's attention. Deterministic for
// any number of threads.
void RegisterAttention(executor::OpRegistry& registry);

// Returns the program with its bf16 attentions computed by ampd.attention_bf16, or unchanged if that op is not
// registered.
graph::Graph WithRegisteredAttention(const graph::Graph& program, const executor::OpRegistry& registry);

}  // namespace ampd::amp
