#pragma once

#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"

namespace ampd::graph {

// A graph with the nodes of the graphs that its nodes hold in their place: what ran under torch.no_grad has no gradient
// behind it, and what ran under torch.autocast(enabled=False) says so (ExportedNode::keeps_fp32). A node that holds a
// graph for another purpose stays as it is. INVALID_ARGUMENT (reason BAD_EXPORT) where inputs or outputs do not fit.
absl::StatusOr<ExportedGraph> WithoutNestedGraphs(const ExportedGraph& graph);

}  // namespace ampd::graph
