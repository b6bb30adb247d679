#include "graph/passes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/aliases.h"
#include "graph/modes.h"
#include "graph/op_table.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

// Copies a node into the evaluation program.
void KeepForEvaluation(Node node, Rewriter& rewriter) {
  if (node.op == "aten.dropout.default" || node.op == "aten.feature_dropout.default") {
    rewriter.ReplaceUses(node.outputs[0], *node.ValueOf("input"));
    return;
  }
  rewriter.Keep(ForEvaluation(std::move(node)));
}

// Whether the node writes running statistics of a norm, or a parameter or buffer in place.
bool WritesState(const std::vector<bool>& is_state, const Aliases& aliases, const Node& node) {
  if (const auto written = WrittenBy(node); written.has_value()) {
    return is_state[static_cast<size_t>(aliases.Of(*written))];
  }
  const OpRow* row = FindOp(node.op);
  return row != nullptr && !row->writes.empty() && Trains(*row, node);
}

// A set of values that are read, together with the memory in which their elements lie.
class Reads {
 public:
  explicit Reads(const Aliases& aliases) : aliases_(aliases) {}

  void Add(ValueId value) {
    values_.insert(value.index);
    memory_.insert(aliases_.Of(value));
  }
  // Whether the set contains a result of `node`, or a value that uses the memory that `node` writes in place.
  bool Any(const Node& node) const {
    const auto written = WrittenBy(node);
    return (written.has_value() && memory_.contains(aliases_.Of(*written))) ||
           std::any_of(node.outputs.begin(), node.outputs.end(),
                       [this](ValueId output) { return values_.contains(output.index); });
  }

 private:
  const Aliases& aliases_;
  std::unordered_set<int> values_;
  std::unordered_set<int> memory_;
};

// Returns the graph with only those nodes that lead to an output or, if `keeps_state`, to a write of a parameter or
// buffer.
Graph Needed(const Graph& graph, bool keeps_state) {
  const Aliases aliases(graph);
  const std::vector<bool> is_state = StatesOf(graph);
  Reads reads(aliases);
  for (const Output& output : graph.outputs()) {
    reads.Add(output.value);
  }
  std::vector<Node> kept;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (!reads.Any(*node) && !(keeps_state && WritesState(is_state, aliases, *node))) {
      continue;
    }
    for (ValueId use : node->Uses()) {
      reads.Add(use);
    }
    kept.push_back(*node);
  }
  std::reverse(kept.begin(), kept.end());
  Graph result = graph;
  result.SetNodes(std::move(kept));
  return result;
}

// The results of the nodes that lead to one of the outputs.
std::set<ValueId> ResultsBefore(Graph graph, std::vector<Output> outputs) {
  graph.SetOutputs(std::move(outputs));
  const Graph needed = Needed(graph, /*keeps_state=*/false);
  std::set<ValueId> results;
  for (const Node& node : needed.nodes()) {
    results.insert(node.outputs.begin(), node.outputs.end());
  }
  return results;
}

// Removes the running statistics from a norm in training mode, which writes them but does not read them.
void KeepNoStatistics(Node& node) {
  if (const OpRow* const row = FindOp(node.op); row != nullptr && Trains(*row, node)) {
    for (const std::string_view name : row->writes) {
      node.Set(name, Operand());
    }
  }
}

}  // namespace

Graph WithoutDeadNodes(const Graph& graph) { return Needed(graph, /*keeps_state=*/true); }

Graph EvalProgram(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    KeepForEvaluation(node, rewriter);
  }
  return WithoutDeadNodes(std::move(rewriter).Finish());
}

Graph OwnEvalProgram(const Graph& graph) {
  Rewriter rewriter(graph);
  for (Node node : graph.nodes()) {
    const OpRow* const row = FindOp(ComputedBy(node.op));
    const bool is_active = DrawsRandomNumbers(node) || (row != nullptr && Trains(*row, node));
    if (!is_active || GivenBack(node).has_value()) {
      KeepForEvaluation(std::move(node), rewriter);
      continue;
    }
    KeepNoStatistics(node);
    rewriter.Keep(std::move(node));
  }
  return WithoutDeadNodes(std::move(rewriter).Finish());
}

absl::StatusOr<Graph> LossProgram(const Graph& model, std::string_view loss) {
  AMPD_ASSIGN_OR_RETURN(Graph graph, WithoutInPlaceOps(model));
  const auto output = graph.FindOutput(loss);
  if (!output.has_value() || graph.type(*output) != TensorType{Dtype::kFloat32, {}}) {
    return Error(absl::StatusCode::kInvalidArgument, "NO_LOSS",
                 absl::StrCat("model ", graph.name(), " has no fp32 scalar \"", std::string(loss), "\" as an output"));
  }
  const auto place = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                  [loss](const Output& one) { return one.name == loss; });
  const std::set<ValueId> counted_later = ResultsBefore(graph, {place + 1, graph.outputs().end()});
  graph.SetOutputs({{std::string(loss), *output}});
  graph = Needed(graph, /*keeps_state=*/false);
  std::vector<Node> nodes = graph.nodes();
  for (Node& node : nodes) {
    if (counted_later.contains(node.outputs[0])) {
      KeepNoStatistics(node);
    }
  }
  graph.SetNodes(std::move(nodes));
  return graph;
}

}  // namespace ampd::graph
