#pragma once

#include "absl/status/status.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/exported_types.h"
#include "graph/graph.h"

namespace ampd::graph {

// Changes `added`, the node of the new graph that the import makes of `node`, if the export made the node for its own
// machine or memory layout, or if another op suits the passes better:
//
// * A view becomes a reshape: this engine may keep images channels-last, where a view with another shape must be a
// copy.
// * A narrow becomes a slice, because WithoutInPlaceOps can replace a write to a slice, but not to a narrow.
// * A cast to the dtype of another tensor becomes a cast to that dtype.
// * A cast to the dtype that the tensor already has becomes the copy that it makes (CopyMadeBy). A cast that always
//   copies has the argument "copy", so that Aliases knows that its result is new memory.
// * A table has dense gradients, which have the same numbers as sparse ones. A batch norm may use cuDNN.
//
// REQUIRES: `added` has the arguments of the node. Errors are INVALID_ARGUMENT with the reason BAD_EXPORT.
absl::Status AdaptNode(const ExportedGraph& graph, const ExportedNode& node, const ExportedTypes& types, Node& added);

}  // namespace ampd::graph
