#pragma once

#include "absl/status/statusor.h"
#include "graph/exported/exported_program.h"

namespace ampd::graph {

// Inlines the nested graphs into which torch.export puts the ops under torch.no_grad or torch.autocast. Results that
// were computed under torch.no_grad get no gradient, and nodes under torch.autocast(enabled=False) are marked
// (ExportedNode::keeps_fp32). A node that holds a graph for another purpose is unchanged. INVALID_ARGUMENT (reason
// BAD_EXPORT) if the inputs or outputs of a nested graph do not fit the node that holds it.
absl::StatusOr<ExportedGraph> WithoutNestedGraphs(const ExportedGraph& graph);

}  // namespace ampd::graph
