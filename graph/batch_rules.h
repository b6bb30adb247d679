#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Why the graph can't run on batches of `batch_size` samples, naming the op and its module; empty if it can. These are
// faults of batch-dependent sizes that torch.nn rejects in Python but the ops accept: a norm that uses batch statistics
// needs more than one value per channel, because the variance of one value is NaN.
std::string FaultOfBatch(const Graph& graph, int64_t batch_size);

}  // namespace ampd::graph
