#pragma once

#include "graph/graph.h"
#include "graph/op_table.h"

// What a node does by its mode: ops that train and ops that draw are those only as their arguments say.
namespace ampd::graph {

// Whether the node has a training and an evaluation mode. A norm without running statistics has not: it takes those of
// the batch whatever its argument says of training.
bool HasModes(const OpRow& row, const Node& node);

// Whether the node is in training mode; false where it has none.
bool Trains(const OpRow& row, const Node& node);

// Whether the node draws random numbers when it runs.
bool DrawsRandomNumbers(const Node& node);

// In evaluation mode: it drops nothing, and norms use their running statistics. What draws in either mode still does,
// and a norm without running statistics stays as it is.
Node ForEvaluation(Node node);

}  // namespace ampd::graph
