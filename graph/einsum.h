#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::graph {

// Every aten.einsum becomes the ops that LibTorch 2.11 computes it by, in their order: views that bring its operands
// into one order of dimensions, sums, and for each pair of operands either a product of matrices (aten.bmm), where a
// label is summed over that both have, or a product of elements (aten.mul). A policy treats each of them as it is: it
// lowers products of matrices alone, as torch.autocast does, which lists bmm and not einsum.
//
// A batch is taken to be larger than 1, as torch.export takes it. A product of operands in two floating-point dtypes is
// fp32. An einsum whose sizes a graph can't hold (a product of two that depend on the batch), or whose operands have
// several dtypes that are not all floating-point, stays as it is. INVALID_ARGUMENT (reason BAD_EINSUM) for an equation
// that does not go with its operands.
absl::StatusOr<Graph> WithoutEinsums(const Graph& graph);

}  // namespace ampd::graph
