// The program of a model's label count: LabelCountProgram of passes.h.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "graph/modes.h"
#include "graph/op_table.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

absl::Status BadCount(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, "BAD_LABEL_COUNT", message);
}

absl::Status CheckType(const TensorType& type) {
  const bool is_number = type.dtype == Dtype::kFloat32 || type.dtype == Dtype::kInt64 || type.dtype == Dtype::kInt32;
  return is_number && type.shape.empty()
             ? absl::OkStatus()
             : BadCount("is no number of labels; that is a scalar of float32, int64 or int32");
}

// The nodes that `value` is computed from, in the order of the graph.
std::vector<Node> NodesBefore(const Graph& model, ValueId value) {
  std::set<ValueId> read = {value};
  std::vector<Node> nodes;
  for (auto node = model.nodes().rbegin(); node != model.nodes().rend(); ++node) {
    const bool leads =
        std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId one) { return read.contains(one); });
    if (leads) {
      const std::vector<ValueId> uses = node->Uses();
      read.insert(uses.begin(), uses.end());
      nodes.push_back(*node);
    }
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

// Returns the state that a training step writes, such as running statistics.
std::set<ValueId> WrittenState(const Graph& model) {
  std::set<ValueId> written;
  for (const Node& node : model.nodes()) {
    const OpRow* const row = FindOp(node.op);
    for (const std::string_view argument : row == nullptr ? std::vector<std::string_view>() : row->writes) {
      if (const auto value = node.ValueOf(argument); value.has_value()) {
        written.insert(*value);
      }
    }
  }
  return written;
}

// A graph of some of a model's nodes, with its own values.
class Excerpt {
 public:
  explicit Excerpt(const Graph& model) : model_(model), excerpt_(absl::StrCat(model.name(), "_", kLabelCount)) {
    for (const ValueId input : model.inputs()) {
      values_[input] = excerpt_.AddInput(model.value(input).name, model.type(input));
    }
  }

  void AddBuffers(const std::set<ValueId>& read) {
    for (const State& buffer : model_.buffers()) {
      if (read.contains(buffer.value)) {
        values_[buffer.value] = excerpt_.AddBuffer(buffer.name, model_.type(buffer.value), buffer.initializer);
      }
    }
  }

  void AddNode(Node node) {
    for (Argument& argument : node.arguments) {
      if (auto* const value = std::get_if<ValueId>(&argument.operand)) {
        *value = values_.at(*value);
      } else if (auto* const list = std::get_if<std::vector<std::optional<ValueId>>>(&argument.operand)) {
        for (std::optional<ValueId>& entry : *list) {
          entry = entry.has_value() ? std::optional(values_.at(*entry)) : std::nullopt;
        }
      }
    }
    for (ValueId& output : node.outputs) {
      const ValueId own = excerpt_.AddValue(model_.value(output).name, model_.type(output));
      values_[std::exchange(output, own)] = own;
    }
    excerpt_.AddNode(std::move(node));
  }

  Graph Finish(ValueId output) && {
    excerpt_.AddOutput(kLabelCount, values_.at(output));
    return std::move(excerpt_);
  }

 private:
  const Graph& model_;
  Graph excerpt_;
  std::map<ValueId, ValueId> values_;  // Maps the model's values to the excerpt's.
};

absl::Status CheckReads(const Graph& model, const std::set<ValueId>& read) {
  for (const State& parameter : model.parameters()) {
    if (read.contains(parameter.value)) {
      return BadCount(absl::StrCat("depends on the parameter ", parameter.name,
                                   "; the number of labels follows from the model's inputs alone"));
    }
  }
  for (const ValueId value : WrittenState(model)) {
    if (read.contains(value)) {
      return BadCount(absl::StrCat("depends on ", model.value(value).name,
                                   ", which training changes; the number of labels follows from the model's inputs "
                                   "alone"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<Graph>> LabelCountProgram(const Graph& model) {
  const auto output = model.FindOutput(kLabelCount);
  if (!output.has_value()) {
    return std::nullopt;
  }
  AMPD_RETURN_IF_ERROR(CheckType(model.type(*output)));
  const std::vector<Node> nodes = NodesBefore(model, *output);
  std::set<ValueId> read = {*output};
  for (const Node& node : nodes) {
    if (DrawsRandomNumbers(node)) {
      return BadCount(absl::StrCat("depends on the random numbers of ", node.op, " in ", node.module_path,
                                   "; the number of labels follows from the model's inputs alone"));
    }
    const std::vector<ValueId> uses = node.Uses();
    read.insert(uses.begin(), uses.end());
  }
  AMPD_RETURN_IF_ERROR(CheckReads(model, read));
  Excerpt excerpt(model);
  excerpt.AddBuffers(read);
  for (const Node& node : nodes) {
    excerpt.AddNode(node);
  }
  return std::move(excerpt).Finish(*output);
}

}  // namespace ampd::graph
