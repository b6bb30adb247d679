#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Returns what is wrong with a node, as words that follow its name in a message; an empty string if nothing is wrong.
// Checks what the engine relies on and a file may violate: the arguments and results are those of the op's schema
// (op_schemas.h), tensors have the right number of dimensions, and the numbers are valid (argument_rules.h). Looks only
// at the types of values. A node without a fault has every tensor that its op requires.
std::string FaultOf(const Graph& graph, const Node& node);

}  // namespace ampd::graph
