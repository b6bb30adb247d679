#pragma once

#include "graph/graph.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers attention in bf16 if this CPU has products of bf16, and nothing otherwise:
//
//   ampd.attention_bf16(query, key, value, is_causal) -> as the query, all (B, heads, T, D)
//
// Like LibTorch's flash attention, whose bf16 products are fast only on CPUs of one maker. It rounds, saves for the
// backward pass and returns the same quantities, but not bit for bit. Shapes and strides that the kernel does not
// support go to LibTorch's. Deterministic for any number of threads.
void RegisterAttention(executor::OpRegistry& registry);

// Returns the program with its bf16 attentions computed by that op, if it is registered.
graph::Graph WithRegisteredAttention(const graph::Graph& program, const executor::OpRegistry& registry);

}  // namespace ampd::amp
