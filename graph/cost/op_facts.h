#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op_table.h"

// Facts about the op of a node that the estimates of memory and traffic need in addition to the op table: which of
// ampd's own ops it is, and which tensors it saves for its backward pass.
namespace ampd::graph {

// Returns the facts about a node's op, as a row of the op table. For an ATen op, this is the op's row in the table.
// The table has no rows for ampd's own ops. For these, the function returns:
// * "ampd.linear_fp8", and ampd's cross-entropies and layer norms: a row that op_facts.cc defines.
// * Every other op of ampd: the row of the ATen op that it replaces.
const OpRow* RowOf(const Node& node);

// Whether the op computes in fp32 copies of its arguments, as estimated for a CPU. This holds for the "_wide" ops,
// which multiply 16-bit tensors, and for the FP8 linear layer, because no CPU multiplies FP8 numbers natively.
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

// Returns what a node saves for its backward pass. This is OpRow::saves of RowOf(node), with three exceptions:
// * Pooling to one pixel is a mean, and saves nothing.
// * An FP8 linear layer whose weight gradient is not computed in FP8 saves its input unchanged.
// * A fused batch norm with an addition and a ReLU also saves where the ReLU was active. A fused batch norm with only a
//   ReLU does not: its backward pass computes the result again from the input.
std::vector<std::string_view> SavesOf(const Node& node);

}  // namespace ampd::graph
