#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// Returns what is wrong with the numeric arguments of a node, as words that follow the node's name in a message; an
// empty string if nothing is wrong. Checks rules about probabilities, window sizes, strides and paddings, groups and
// numbers of classes. PyTorch enforces these in torch.nn, or in the ops when they run; a graph alone does not enforce
// them. Sizes that depend on the batch are checked by graph/batch_rules.h.
std::string FaultOfArguments(const Graph& graph, const Node& node);

}  // namespace ampd::graph
