#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// What torch.nn and the ops themselves refuse of a call's numbers, and what a graph of ops has lost or tells only when
// it runs: probabilities, sizes of windows, strides and paddings, groups, numbers of classes. What is wrong, in words
// that follow the node's name; empty: nothing. Sizes that depend on the batch are graph/batch_rules.h's.
std::string FaultOfArguments(const Graph& graph, const Node& node);

}  // namespace ampd::graph
