#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// An index beyond the end of a table that the graph uses whatever its inputs are, for example positions beyond the
// longest text that a model has embeddings for: the op, its module and both numbers. Follows integers that the graph
// makes itself, by arange and the like. Empty if no fault is known.
std::string FaultOfConstantIndices(const Graph& graph);

}  // namespace ampd::graph
