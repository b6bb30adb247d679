#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Looks for an index that lies outside its table and that the graph uses for all inputs, for example a position beyond
// the longest text for which a model has embeddings. Returns a message with the op, its module, the index and the
// number of rows, or an empty string if no such index is found. Follows only integers that the graph makes itself, by
// arange and the like. REQUIRES: there are no in-place ops (WithoutInPlaceOps of graph/passes.h).
std::string FaultOfConstantIndices(const Graph& graph);

}  // namespace ampd::graph
