#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// What is wrong with the numbers of a call, as words that follow the node's name; empty if nothing is. Checks what
// torch.nn and the ops themselves reject, but what a graph of ops does not hold or shows only when it runs:
// probabilities, window sizes, strides and paddings, groups, numbers of classes. Sizes that depend on the batch are
// checked by graph/batch_rules.h.
std::string FaultOfArguments(const Graph& graph, const Node& node);

}  // namespace ampd::graph
