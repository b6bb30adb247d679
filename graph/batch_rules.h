#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Why the graph can't run on batches of `batch_size` samples, naming the op and its module: what torch.nn refuses in
// Python of sizes that depend on the batch, and the ops themselves let through. A norm that takes its statistics of the
// batch needs more than one value a channel: the variance of one value is not a number. Empty: nothing is wrong.
std::string FaultOfBatch(const Graph& graph, int64_t batch_size);

}  // namespace ampd::graph
