#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// What the graph chooses beyond the end of a table whatever its inputs are, as positions beyond the longest text that a
// model has embeddings for: the op, its module and both numbers. It follows whole numbers that the graph makes itself,
// by arange and the like. Empty: nothing is known to be wrong.
std::string FaultOfConstantIndices(const Graph& graph);

}  // namespace ampd::graph
