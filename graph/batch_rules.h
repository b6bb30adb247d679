#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Returns why the graph can't run on batches of `batch_size` samples, with the op and its module, or an empty string if
// it can. Checks a rule that torch.nn enforces in Python but the ops do not: a batch norm in training mode needs more
// than one value per channel, and a group norm more than one per group, because the variance of one value is NaN.
std::string FaultOfBatch(const Graph& graph, int64_t batch_size);

}  // namespace ampd::graph
