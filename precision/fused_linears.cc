#include "precision/fused_linears.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/rewriter.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::ValueId;

bool IsReplaced(const Node& node, const Graph& program) {
  if (node.op != "aten.linear.default" || node.without_gradient || !node.ValueOf("bias").has_value()) {
    return false;
  }
  const Dtype dtype = program.type(node.outputs[0]).dtype;
  const std::vector<ValueId> uses = node.Uses();
  return (dtype == Dtype::kFloat32 || dtype == Dtype::kBFloat16 || dtype == Dtype::kFloat16) &&
         program.type(node.outputs[0]).shape.size() >= 2 &&
         std::all_of(uses.begin(), uses.end(), [&](ValueId use) { return program.type(use).dtype == dtype; });
}

}  // namespace

Graph WithFusedLinears(const Graph& program) {
  graph::Rewriter rewriter(program);
  for (Node node : program.nodes()) {
    if (IsReplaced(node, program)) {
      node.op = "ampd.linear";
      node.arguments = {
          {"input", *node.ValueOf("input")}, {"weight", *node.ValueOf("weight")}, {"bias", *node.ValueOf("bias")}};
    }
    rewriter.Keep(std::move(node));
  }
  return std::move(rewriter).Finish();
}

}  // namespace ampd::precision
