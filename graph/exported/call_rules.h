#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Returns what is wrong with a node, as words that follow its name in a message; an empty string if nothing is wrong.
// Checks what the engine relies on and a file may violate: the tensors that the op requires are present, they and the
// result have the right number of dimensions, and the numbers are valid (argument_rules.h). Looks only at the types of
// values. REQUIRES: the op is in the op table.
std::string FaultOf(const Graph& graph, const Node& node);

}  // namespace ampd::graph
