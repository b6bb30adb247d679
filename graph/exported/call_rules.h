#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// What the engine takes for granted of a call, and what a file need not keep: that the tensors which an op can't do
// without are there, and that they and its result have as many dimensions as it takes, and that its numbers are ones it
// takes (argument_rules.h). What is wrong with the node, in words that follow its name; empty: nothing. Values are told
// by their types alone. REQUIRES: the op is in the op table.
std::string FaultOf(const Graph& graph, const Node& node);

}  // namespace ampd::graph
