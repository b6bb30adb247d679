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
#include "graph/op_table.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

// The value whose memory a node writes and gives as its result; nothing when it has a result of its own.
std::optional<ValueId> WrittenBy(const Node& node) {
  const OpRow* row = FindOp(node.op);
  return row == nullptr || row->in_place_of.empty() ? std::nullopt : node.ValueOf("self");
}

// Copies a node into the evaluation program.
void KeepForEvaluation(Node node, Rewriter& rewriter) {
  if (node.op == "aten.dropout.default" || node.op == "aten.feature_dropout.default") {
    rewriter.ReplaceUses(node.outputs[0], *node.ValueOf("input"));
    return;
  }
  const OpRow* row = FindOp(node.op);
  if (row != nullptr && !row->training_argument.empty()) {
    node.Set(row->training_argument, false);
  }
  rewriter.Keep(std::move(node));
}

// Which values show the memory of which others.
class Aliases {
 public:
  explicit Aliases(const Graph& graph) : memory_(static_cast<size_t>(graph.num_values())) {
    std::iota(memory_.begin(), memory_.end(), 0);
    for (const Node& node : graph.nodes()) {
      const OpRow* row = FindOp(node.op);
      const auto shown = row == nullptr ? std::nullopt : node.ValueOf(row->views);
      for (ValueId output : node.outputs) {
        memory_[static_cast<size_t>(output.index)] = shown.has_value() ? Of(*shown) : output.index;
      }
    }
  }
  int Of(ValueId value) const { return memory_[static_cast<size_t>(value.index)]; }

 private:
  std::vector<int> memory_;
};

bool IsState(const Graph& graph, int value) {
  const auto is = [value](const State& state) { return state.value.index == value; };
  return std::any_of(graph.parameters().begin(), graph.parameters().end(), is) ||
         std::any_of(graph.buffers().begin(), graph.buffers().end(), is);
}

// Running statistics of norms, and parameters or buffers that are written in place.
bool WritesState(const Graph& graph, const Aliases& aliases, const Node& node) {
  if (const auto written = WrittenBy(node); written.has_value()) {
    return IsState(graph, aliases.Of(*written));
  }
  const OpRow* row = FindOp(node.op);
  if (row == nullptr || row->writes.empty()) {
    return false;
  }
  const Operand* training = node.Find(row->training_argument);
  return training != nullptr && *training == Operand(true);
}

// A value other than the written one and the result that shows the same memory and that a later node reads, or that is
// an output of the graph.
std::optional<ValueId> OtherReader(const Graph& graph, size_t index, const Aliases& aliases, ValueId written) {
  std::set<ValueId> rewritten = {written, graph.nodes()[index].outputs[0]};  // and what is made later
  const auto shows = [&](ValueId use) { return aliases.Of(use) == aliases.Of(written) && !rewritten.contains(use); };
  for (size_t i = index + 1; i < graph.nodes().size(); ++i) {
    const std::vector<ValueId> uses = graph.nodes()[i].Uses();
    if (const auto other = std::find_if(uses.begin(), uses.end(), shows); other != uses.end()) {
      return *other;
    }
    rewritten.insert(graph.nodes()[i].outputs.begin(), graph.nodes()[i].outputs.end());
  }
  for (const Output& output : graph.outputs()) {
    if (shows(output.value)) {
      return output.value;
    }
  }
  return std::nullopt;
}

// What the nodes behind a place in the graph read.
class Reads {
 public:
  explicit Reads(const Aliases& aliases) : aliases_(aliases) {}

  void Add(ValueId value) {
    values_.insert(value.index);
    memory_.insert(aliases_.Of(value));
  }
  // Whether something reads what the node computes: its results, or, by whatever name, the memory that it writes.
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

// The nodes that lead to an output or, where `keeps_state`, to a parameter or buffer that is written.
Graph Needed(const Graph& graph, bool keeps_state) {
  const Aliases aliases(graph);
  Reads reads(aliases);
  for (const Output& output : graph.outputs()) {
    reads.Add(output.value);
  }
  std::vector<Node> kept;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (!reads.Any(*node) && !(keeps_state && WritesState(graph, aliases, *node))) {
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

}  // namespace

Graph WithoutDeadNodes(const Graph& graph) { return Needed(graph, /*keeps_state=*/true); }

absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph) {
  const Aliases aliases(graph);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Node node = graph.nodes()[i];
    const auto written = WrittenBy(node);
    if (!written.has_value()) {
      rewriter.Keep(std::move(node));
      continue;
    }
    const std::string out_of_place(FindOp(node.op)->in_place_of);
    if (const auto other = OtherReader(graph, i, aliases, *written); other.has_value()) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.op, " of ", node.module_path, " writes the memory of %", graph.value(*other).name,
                                ", which is read afterwards; use ", out_of_place));
    }
    if (IsState(graph, aliases.Of(*written))) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.op, " of ", node.module_path, " writes a parameter or a buffer"));
    }
    const ValueId result = node.outputs[0];
    node.op = out_of_place;
    if (node.op == "aten.dropout.default") {  // the only one of them that calls it so
      for (Argument& argument : node.arguments) {
        argument.name = argument.name == "self" ? "input" : argument.name;
      }
    }
    rewriter.Keep(std::move(node));
    rewriter.ReplaceUses(*written, result);
  }
  return std::move(rewriter).Finish();
}

Graph EvalProgram(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    KeepForEvaluation(node, rewriter);
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
  graph.SetOutputs({{std::string(loss), *output}});
  return Needed(graph, /*keeps_state=*/false);
}

}  // namespace ampd::graph
