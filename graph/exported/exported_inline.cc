#include "graph/exported/exported_inline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/exported/exported_ops.h"

namespace ampd::graph {
namespace {

using GraphPointer = std::shared_ptr<const ExportedGraph>;
using Names = std::vector<std::optional<TensorName>>;

// A call of a nested graph, as read from the node that makes the call.
struct NestedCall {
  GraphPointer graph;
  std::vector<std::string> inputs;  // Names of tensors.
  bool without_gradient = false;
  bool keeps_fp32 = false;
};

// The position of the nested graph among the node's arguments. The arguments after it are the nested graph's inputs.
std::optional<size_t> GraphIn(const ExportedNode& node) {
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    if (std::holds_alternative<GraphPointer>(node.arguments[i].second)) {
      return i;
    }
  }
  return std::nullopt;
}

absl::Status DoesNotFit(const ExportedNode& node, std::string_view why) {
  return BadExport(absl::StrCat(Where(node), ": ", std::string(why)));
}

// Returns the call of a nested graph by wrap_with_set_grad_enabled(enabled, graph, ...) or wrap_with_autocast(device,
// dtype, enabled, cached, graph, ...); nothing for other nodes.
absl::StatusOr<std::optional<NestedCall>> CallOf(const ExportedNode& node) {
  const std::string op = OpOf(node);
  const bool sets_gradient = op == "higher_order.wrap_with_set_grad_enabled";
  if (!sets_gradient && op != "higher_order.wrap_with_autocast") {
    return std::nullopt;
  }
  const size_t enabled = sets_gradient ? 0 : 2;
  const auto at = GraphIn(node);
  const bool* const is_enabled =
      enabled < node.arguments.size() ? std::get_if<bool>(&node.arguments[enabled].second) : nullptr;
  if (!at.has_value() || *at <= enabled || is_enabled == nullptr) {
    return DoesNotFit(node, "its arguments are not those of torch 2.11");
  }
  NestedCall call;
  call.graph = std::get<GraphPointer>(node.arguments[*at].second);
  call.without_gradient = sets_gradient && !*is_enabled;
  call.keeps_fp32 = !sets_gradient && !*is_enabled;
  for (size_t i = *at + 1; i < node.arguments.size(); ++i) {
    const auto* const tensor = std::get_if<TensorName>(&node.arguments[i].second);
    if (tensor == nullptr) {
      return DoesNotFit(node, "its graph is given something that is no tensor");
    }
    call.inputs.push_back(tensor->name);
  }
  if (call.inputs.size() != call.graph->inputs.size() || node.tensors.size() != call.graph->outputs.size()) {
    return DoesNotFit(node, "its graph has other inputs or outputs than it is called with");
  }
  return call;
}

class Inliner {
 public:
  explicit Inliner(const ExportedGraph& graph) {
    result_.inputs = graph.inputs;
    result_.outputs = graph.outputs;
    result_.tensors = graph.tensors;
    result_.numbers = graph.numbers;
    result_.relations = graph.relations;
    result_.module_types = graph.module_types;
  }

  absl::StatusOr<ExportedGraph> Run(const ExportedGraph& graph) && {
    AMPD_RETURN_IF_ERROR(AddNodes(graph, Scope()));
    return std::move(result_);
  }

 private:
  // The context in which the nodes of a nested graph are inlined: a prefix for the names that they define, and the
  // names that replace the nested graph's inputs.
  struct Scope {
    std::string prefix;
    std::map<std::string, std::string> inputs;
    bool keeps_fp32 = false;
    bool without_gradient = false;

    std::string NameOf(const std::string& name) const {
      const auto input = inputs.find(name);
      return input != inputs.end() ? input->second : prefix + name;
    }
    std::string NumberOf(const std::string& name) const { return name.empty() ? name : prefix + name; }
  };

  // NOLINTNEXTLINE(misc-no-recursion): the reader of the JSON bounds the depth of nested graphs.
  absl::Status AddNodes(const ExportedGraph& graph, const Scope& scope) {
    for (const ExportedNode& node : graph.nodes) {
      AMPD_ASSIGN_OR_RETURN(const std::optional<NestedCall> call, CallOf(node));
      if (call.has_value()) {
        AMPD_RETURN_IF_ERROR(AddCall(*call, node, scope));
        continue;
      }
      result_.nodes.push_back(Renamed(node, scope));
    }
    return absl::OkStatus();
  }

  // NOLINTNEXTLINE(misc-no-recursion): see AddNodes.
  absl::Status AddCall(const NestedCall& call, const ExportedNode& node, const Scope& outer) {
    Scope scope;
    scope.prefix = absl::StrCat(outer.prefix, "graph_", ++num_calls_, ".");
    scope.keeps_fp32 = outer.keeps_fp32 || call.keeps_fp32;
    scope.without_gradient = outer.without_gradient || call.without_gradient;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      scope.inputs.emplace(call.graph->inputs[i], outer.NameOf(call.inputs[i]));
    }
    for (const auto& [name, tensor] : call.graph->tensors) {
      if (!scope.inputs.contains(name)) {
        result_.tensors.emplace(scope.prefix + name, tensor);
      }
    }
    for (const auto& [name, number] : call.graph->numbers) {
      result_.numbers.emplace(scope.prefix + name, number);
    }
    for (const auto& [name, relation] : call.graph->relations) {
      result_.relations.emplace(scope.prefix + name, relation);
    }
    result_.module_types.insert(call.graph->module_types.begin(), call.graph->module_types.end());
    AMPD_RETURN_IF_ERROR(AddNodes(*call.graph, scope));
    for (size_t i = 0; i < node.tensors.size(); ++i) {
      const std::optional<std::string>& output = call.graph->outputs[i];
      if (!output.has_value()) {
        return DoesNotFit(node, "its graph gives something that is no tensor");
      }
      result_.nodes.push_back(ExportedNode{
          .target = call.without_gradient ? "torch.ops.aten.detach.default" : "torch.ops.aten.alias.default",
          .arguments = {{"self", TensorName{scope.NameOf(*output)}}},
          .tensors = {outer.NameOf(node.tensors[i])},
          .module_path = node.module_path,
          .source = node.source});
    }
    return absl::OkStatus();
  }

  static ExportedNode Renamed(ExportedNode node, const Scope& scope) {
    for (auto& [name, argument] : node.arguments) {
      if (auto* tensor = std::get_if<TensorName>(&argument)) {
        tensor->name = scope.NameOf(tensor->name);
      } else if (auto* list = std::get_if<Names>(&argument)) {
        for (auto& entry : *list) {
          entry = entry.has_value() ? std::optional(TensorName{scope.NameOf(entry->name)}) : entry;
        }
      } else if (auto* size = std::get_if<SizeName>(&argument)) {
        size->name = scope.NumberOf(size->name);
      } else if (auto* sizes = std::get_if<std::vector<SizeName>>(&argument)) {
        std::for_each(sizes->begin(), sizes->end(), [&](SizeName& one) { one.name = scope.NumberOf(one.name); });
      }
    }
    for (std::string& tensor : node.tensors) {
      tensor = scope.NameOf(tensor);
    }
    node.keeps_fp32 = scope.keeps_fp32;
    node.without_gradient = scope.without_gradient;
    return node;
  }

  ExportedGraph result_;
  int num_calls_ = 0;
};

}  // namespace

absl::StatusOr<ExportedGraph> WithoutNestedGraphs(const ExportedGraph& graph) { return Inliner(graph).Run(graph); }

}  // namespace ampd::graph
