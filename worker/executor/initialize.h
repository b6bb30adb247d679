#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::executor {

// Initial values of all parameters and buffers of a graph, on the CPU, in the dtype of their values, without gradients;
// batch counters are 0 (int64). Parameters are drawn in graph order, in fp32, from a separate generator seeded with
// `seed`. So one of our models gets bit for bit what the same torch.nn.Module gets after torch.manual_seed(seed).
// Deterministic.
TensorMap InitialState(const graph::Graph& graph, uint64_t seed);

}  // namespace ampd::executor
