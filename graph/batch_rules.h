#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Returns why a batch of `batch_size` samples is outside the graph's range (Graph::batch_range), or an empty string if
// it is not.
std::string FaultOfBatchRange(const Graph& graph, int64_t batch_size);

// Returns why the graph can't run on batches of `batch_size` samples, or an empty string if it can: the fault of
// FaultOfBatchRange, or a fault with the op and its module. This checks a rule that torch.nn enforces in Python but the
// ops do not: a batch norm in training mode needs more than one value per channel, and a group norm more than one per
// group, because the variance of one value is NaN.
std::string FaultOfBatch(const Graph& graph, int64_t batch_size);

}  // namespace ampd::graph
