#include "graph/passes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/op_table.h"
#include "graph/rewriter.h"

namespace ampd::graph {
namespace {

// at::Reduction::Sum.
constexpr int64_t kReductionSum = 2;

bool WritesBuffers(const Node& node) {
  const OpRow* row = FindOp(node.op);
  if (row == nullptr || row->writes.empty()) {
    return false;
  }
  const Operand* training = node.Find(row->training_argument);
  return training != nullptr && *training == Operand(true);
}

// Copies a node into the evaluation program.
void KeepForEvaluation(Node node, Rewriter& rewriter) {
  if (node.op == "aten.dropout.default") {
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

// A value other than the written one and the result that shows the same memory and that a later node reads.
std::optional<ValueId> OtherReader(const Graph& graph, size_t index, const Aliases& aliases, ValueId written) {
  const ValueId result = graph.nodes()[index].outputs[0];
  std::set<ValueId> made_later;
  for (size_t i = index + 1; i < graph.nodes().size(); ++i) {
    for (ValueId use : graph.nodes()[i].Uses()) {
      if (aliases.Of(use) == aliases.Of(written) && use != written && use != result && !made_later.contains(use)) {
        return use;
      }
    }
    made_later.insert(graph.nodes()[i].outputs.begin(), graph.nodes()[i].outputs.end());
  }
  return std::nullopt;
}

absl::StatusOr<ValueId> LogitsOf(const Graph& graph) {
  const auto logits = graph.FindOutput("logits");
  if (!logits.has_value() || graph.type(*logits).shape.size() != 2) {
    return Error(absl::StatusCode::kInvalidArgument, "NO_LOGITS",
                 absl::StrCat("model ", graph.name(), " has no output \"logits\" of shape (B, classes)"));
  }
  return *logits;
}

ValueId AddLabels(Graph& graph, ValueId logits) {
  return graph.AddInput("labels", {Dtype::kInt64, {graph.type(logits).shape[0]}});
}

// The nodes that lead to an output or to a node that `is_kept` anyway.
Graph Needed(const Graph& graph, bool (*is_kept)(const Node&)) {
  std::vector<bool> used(static_cast<size_t>(graph.num_values()), false);
  for (const Output& output : graph.outputs()) {
    used[static_cast<size_t>(output.value.index)] = true;
  }
  std::vector<Node> kept;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const bool read = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&](ValueId id) { return used[static_cast<size_t>(id.index)]; });
    if (!read && !is_kept(*node)) {
      continue;
    }
    for (ValueId use : node->Uses()) {
      used[static_cast<size_t>(use.index)] = true;
    }
    kept.push_back(*node);
  }
  std::reverse(kept.begin(), kept.end());
  Graph result = graph;
  result.SetNodes(std::move(kept));
  return result;
}

ValueId Call(Graph& graph, std::string op, std::vector<Argument> arguments, std::string_view name, TensorType type) {
  return graph.AddNode({.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}}, name,
                       std::move(type));
}

}  // namespace

Graph WithoutDeadNodes(const Graph& graph) { return Needed(graph, WritesBuffers); }

absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph) {
  const Aliases aliases(graph);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Node node = graph.nodes()[i];
    const OpRow* row = FindOp(node.op);
    if (row == nullptr || row->in_place_of.empty()) {
      rewriter.Keep(std::move(node));
      continue;
    }
    const ValueId written = *node.ValueOf("self");
    if (const auto other = OtherReader(graph, i, aliases, written); other.has_value()) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.op, " of ", node.module_path, " writes the memory of %", graph.value(*other).name,
                                ", which is read afterwards; use ", std::string(row->in_place_of)));
    }
    if (IsState(graph, aliases.Of(written))) {
      return Error(absl::StatusCode::kInvalidArgument, "ALIASED_WRITE",
                   absl::StrCat(node.op, " of ", node.module_path, " writes a parameter or a buffer"));
    }
    const ValueId result = node.outputs[0];
    node.op = std::string(row->in_place_of);
    rewriter.Keep(std::move(node));
    rewriter.ReplaceUses(written, result);
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

absl::StatusOr<Graph> WithLossHead(const Graph& model) {
  AMPD_ASSIGN_OR_RETURN(const ValueId logits, LogitsOf(model));
  Graph graph = model;
  const ValueId labels = AddLabels(graph, logits);
  const ValueId loss = Call(graph, "aten.cross_entropy_loss.default", {{"self", logits}, {"target", labels}}, "loss",
                            {Dtype::kFloat32, {}});
  graph.SetOutputs({{"loss", loss}});
  return WithoutDeadNodes(graph);
}

absl::StatusOr<Graph> LossProgram(const Graph& model, std::string_view loss) {
  AMPD_ASSIGN_OR_RETURN(Graph graph, WithoutInPlaceOps(model));
  const auto output = graph.FindOutput(loss);
  if (!output.has_value() || graph.type(*output) != TensorType{Dtype::kFloat32, {}}) {
    return Error(absl::StatusCode::kInvalidArgument, "NO_LOSS",
                 absl::StrCat("model ", graph.name(), " has no fp32 scalar \"", std::string(loss), "\" as an output"));
  }
  graph.SetOutputs({{std::string(loss), *output}});
  return Needed(graph, [](const Node& /*node*/) { return false; });
}

absl::StatusOr<Graph> WithEvalHead(const Graph& model) {
  AMPD_ASSIGN_OR_RETURN(const ValueId logits, LogitsOf(model));
  Graph graph = EvalProgram(model);
  const ValueId scores = *graph.FindOutput("logits");
  const ValueId labels = AddLabels(graph, logits);
  const Shape samples = {graph.type(logits).shape[0]};
  const ValueId loss =
      Call(graph, "aten.cross_entropy_loss.default",
           {{"self", scores}, {"target", labels}, {"reduction", kReductionSum}}, "loss_sum", {Dtype::kFloat32, {}});
  const ValueId predicted = Call(graph, "aten.argmax.default", {{"self", scores}, {"dim", int64_t{1}}}, "predicted",
                                 {Dtype::kInt64, samples});
  const ValueId correct =
      Call(graph, "aten.eq.Tensor", {{"self", predicted}, {"other", labels}}, "correct", {Dtype::kBool, samples});
  const ValueId count = Call(graph, "aten.sum.default", {{"self", correct}}, "num_correct", {Dtype::kInt64, {}});
  graph.SetOutputs({{"loss_sum", loss}, {"num_correct", count}});
  return WithoutDeadNodes(graph);
}

}  // namespace ampd::graph
