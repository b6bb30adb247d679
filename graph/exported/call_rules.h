#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ampd::graph {

// Returns what is wrong with a node, as words that follow its name in a message; an empty string if nothing is wrong.
// Checks what the engine relies on and a file may violate: the arguments and results are those of the op's schema
// (op_schemas.h), tensors have the right number of dimensions, results that passes exchange for arguments have their
// shape, and the numbers are valid (argument_rules.h). Looks only at the types of values. A node without a fault has
// every tensor that its op requires.
std::string FaultOf(const Graph& graph, const Node& node);

// Returns the graph if no node has a fault; otherwise INVALID_ARGUMENT (reason BAD_EXPORT) with the first node that has
// one. The import calls this after its passes, because they give nodes other values than those of the file.
absl::StatusOr<Graph> WithSoundCalls(Graph graph);

}  // namespace ampd::graph
