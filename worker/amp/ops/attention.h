#pragma once

#include "graph/graph.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers attention in bf16 where this CPU has products of bf16, and nothing elsewhere:
//
//   ampd.attention_bf16(query, key, value, is_causal) -> as the query, all (B, heads, T, D)
//
// As LibTorch's flash attention, whose products of bf16 are fast on CPUs of one maker only: what is rounded, saved for
// the backward pass and returned is the same, but not bit for bit. Shapes and strides that the kernel does not take go
// to LibTorch's. Deterministic, whatever the number of threads.
void RegisterAttention(executor::OpRegistry& registry);

// The program with its attentions in bf16 computed by that op, where it is registered.
graph::Graph WithRegisteredAttention(const graph::Graph& program, const executor::OpRegistry& registry);

}  // namespace ampd::amp
