#include "graph/exported/node_fate.h"

#include "graph/exported/exported_ops.h"
#include "graph/op_table.h"

namespace ampd::graph {

NodeFate FateOf(const ExportedProgram& program, const std::set<std::string>& counters, const ExportedNode& node) {
  const bool is_one = node.tensors.size() == 1;
  if (IsAboutSizes(node) || (is_one && counters.contains(node.tensors[0]))) {
    return NodeFate::kSkipped;
  }
  if (is_one && (IsIdentity(node) || ChangesNothing(program.graph, node))) {
    return NodeFate::kPassed;
  }
  if (BroadcastsNothing(program.graph, node)) {
    return NodeFate::kPassed;
  }
  const std::string op = OpOf(node);
  const bool is_allowed = FindOp(op) != nullptr || op == kTypeAs;
  return !is_allowed || node.gives_numbers || node.tensors.empty() ? NodeFate::kRefused : NodeFate::kRuns;
}

}  // namespace ampd::graph
