#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op_table.h"

// Facts about the op of a node that the estimates of memory and traffic need in addition to the op table: which of
// ampd's own ops it is, and which tensors it saves for its backward pass.
namespace ampd::graph {

// The row of a node's op in the op table. For an op that computes in fp32 copies, it is the row of the op that this op
// replaces.
const OpRow* RowOf(const Node& node);

// Whether the op computes in fp32 copies of its arguments. This holds for 16-bit products ("_wide") and for FP8
// products, which no CPU computes natively.
bool IsWide(const Node& node);

bool IsConvolution(const Node& node);
bool IsRecurrent(const Node& node);
bool IsCrossEntropy(const Node& node);        // "ampd.cross_entropy"
bool IsLinearCrossEntropy(const Node& node);  // "ampd.linear_cross_entropy"
bool IsLinearWithBias(const Node& node);      // "ampd.linear"
bool IsAddLayerNorm(const Node& node);        // "ampd.add_layer_norm"
bool IsFusedNorm(const Node& node);           // "ampd.layer_norm" or "ampd.add_layer_norm"
// Whether the node is a batch norm that is fused with a ReLU, or with an addition and a ReLU.
bool EndsInRelu(const Node& node);
bool EndsInAddRelu(const Node& node);

// The value that is given as the argument. If the argument is a list: the values in the list.
std::vector<ValueId> ValuesOf(const Node& node, std::string_view argument);

// Returns what a node saves for its backward pass. This is the list `saves` of its row in the op table, with three
// exceptions. Pooling to one pixel is a mean and saves nothing. An FP8 linear layer whose weight gradient is not a
// product in FP8 saves its input as it is. A fused batch norm with an addition and a ReLU also saves where ReLU was
// active; without the addition, its backward pass computes the result again from the input.
std::vector<std::string_view> SavesOf(const Node& node);

}  // namespace ampd::graph
