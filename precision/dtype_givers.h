#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace ampd::precision {

// Returns the type of a value of the graph to which a node belongs.
using TypeOfValue = std::function<const graph::TensorType&(graph::ValueId)>;

// The floating-point inputs that determine the dtype in which the node computes. If the result of the op has the dtype
// of one argument (result_like), only this argument counts. Otherwise all inputs count, but 0-dim inputs only if all
// inputs are 0-dim, as in PyTorch.
std::vector<graph::ValueId> DtypeGiversOf(const graph::Node& node, const TypeOfValue& type_of);

// Whether one of these inputs is float64. Then the node computes in float64, and none of its inputs is cast: a model
// has float64 only where it asks for it, and torch.autocast leaves float64 alone too (is_eligible in
// ATen/autocast_mode.h).
bool ComputesInFloat64(const graph::Node& node, const TypeOfValue& type_of);

}  // namespace ampd::precision
