#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Returns what is wrong with the numeric arguments of a node, as words that follow the node's name in a message; an
// empty string if nothing is wrong. Checks rules that torch.nn and the ops themselves enforce, but that a graph of ops
// does not hold or shows only when it runs: probabilities, window sizes, strides and paddings, groups, numbers of
// classes. Sizes that depend on the batch are checked by graph/batch_rules.h.
std::string FaultOfArguments(const Graph& graph, const Node& node);

}  // namespace ampd::graph
