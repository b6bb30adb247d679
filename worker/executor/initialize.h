#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::executor {

// Makes the initial values of all parameters and buffers of a graph, on the CPU, in their own dtypes, without
// gradients. Batch counters are 0 (int64). Parameters are drawn in graph order, in fp32, from a separate generator
// seeded with `seed`, so a built-in model starts with the same bits as the same torch.nn.Module after
// torch.manual_seed(seed). Deterministic.
TensorMap InitialState(const graph::Graph& graph, uint64_t seed);

}  // namespace ampd::executor
