#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::executor {

// First contents of all parameters and buffers of a graph, on the CPU, in the dtype of their values, without gradients,
// and 0 (int64) for its batch counters.
// A generator of its own is seeded with `seed` and parameters are drawn in their order in the graph, in fp32, so that a
// model of ours gets bit for bit what the same torch.nn.Module gets after torch.manual_seed(seed). Deterministic.
TensorMap InitialState(const graph::Graph& graph, uint64_t seed);

}  // namespace ampd::executor
