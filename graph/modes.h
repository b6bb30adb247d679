#pragma once

#include "graph/graph.h"
#include "graph/op_table.h"

// Training and evaluation mode of nodes. Whether a node is in training mode, or draws random numbers, may depend on its
// arguments.
namespace ampd::graph {

// Whether the node has a training and an evaluation mode. A norm without running statistics does not: it always uses
// batch statistics, whatever its training argument.
bool HasModes(const OpRow& row, const Node& node);

// Whether the node is in training mode; false if it has no modes.
bool Trains(const OpRow& row, const Node& node);

// Whether the node draws random numbers when it runs.
bool DrawsRandomNumbers(const Node& node);

// The node in evaluation mode: it drops nothing, and norms use their running statistics. Nodes that draw random numbers
// in both modes, and norms without running statistics, are unchanged.
Node ForEvaluation(Node node);

}  // namespace ampd::graph
