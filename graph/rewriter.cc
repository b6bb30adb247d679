#include "graph/rewriter.h"

#include <utility>

namespace ampd::graph {

Rewriter::Rewriter(const Graph& source) : target_(source) {
  nodes_.reserve(source.nodes().size());
  target_.SetNodes({});
}

ValueId Rewriter::Resolve(ValueId value) const {
  const auto it = replacements_.find(value);
  return it == replacements_.end() ? value : it->second;
}

void Rewriter::Keep(Node node) {
  for (Argument& argument : node.arguments) {
    if (auto* value = std::get_if<ValueId>(&argument.operand)) {
      *value = Resolve(*value);
    } else if (auto* list = std::get_if<std::vector<std::optional<ValueId>>>(&argument.operand)) {
      for (auto& entry : *list) {
        if (entry.has_value()) {
          entry = Resolve(*entry);
        }
      }
    }
  }
  nodes_.push_back(std::move(node));
}

ValueId Rewriter::Emit(Node node, std::string_view output_name, TensorType type) {
  const ValueId output = target_.AddValue(output_name, std::move(type));
  node.outputs = {output};
  Keep(std::move(node));
  return output;
}

void Rewriter::ReplaceUses(ValueId from, ValueId to) {
  const ValueId resolved = Resolve(to);
  for (auto& [source, replacement] : replacements_) {
    if (replacement == from) {
      replacement = resolved;
    }
  }
  replacements_[from] = resolved;
}

Graph Rewriter::Finish() && {
  target_.SetNodes(std::move(nodes_));
  std::vector<Output> outputs = target_.outputs();
  for (Output& output : outputs) {
    output.value = Resolve(output.value);
  }
  target_.SetOutputs(std::move(outputs));
  return std::move(target_);
}

}  // namespace ampd::graph
