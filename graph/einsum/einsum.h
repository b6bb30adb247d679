#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::graph {

// Replaces every aten.einsum by the ops with which LibTorch 2.11 computes it, in the same order: views that bring the
// dimensions of all operands into one order, sums, and one product per pair of operands. The product is a matrix
// product (aten.bmm) if the two operands share a label that is summed over, and an elementwise product (aten.mul)
// otherwise. A policy then treats each op by its own rule: it lowers only the matrix products, like torch.autocast,
// which lists bmm and not einsum.
//
// The batch is assumed to be larger than 1, as in torch.export. A product of operands in two floating-point dtypes is
// fp32. An einsum is left unchanged if a graph can't represent its sizes (a product of two sizes that depend on the
// batch), or if its operands have several dtypes that are not all floating-point. INVALID_ARGUMENT (reason BAD_EINSUM)
// if the equation does not fit its operands.
absl::StatusOr<Graph> WithoutEinsums(const Graph& graph);

}  // namespace ampd::graph
