#include "graph/rewriter.h"

#include <utility>

namespace ampd::graph {

Rewriter::Rewriter(const Graph& source) : target_(source) {
  nodes_.reserve(source.nodes().size());
  target_.SetNodes({});
}

ValueId Rewriter::Resolve(ValueId value) const {
  const auto it = groups_.find(value);
  return it == groups_.end() ? value : stands_for_[Root(it->second)];
}

size_t Rewriter::Root(size_t group) const {
  while (parents_[group] != group) {
    group = parents_[group];
  }
  return group;
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
  const auto [target, is_new] = roots_.try_emplace(resolved, parents_.size());
  if (is_new) {
    parents_.push_back(target->second);
    sizes_.push_back(0);
    stands_for_.push_back(resolved);
  }
  size_t& root = target->second;
  if (const auto followers = roots_.find(from); followers != roots_.end() && followers != target) {
    size_t joined = followers->second;
    roots_.erase(followers);
    if (sizes_[joined] > sizes_[root]) {
      std::swap(joined, root);
    }
    parents_[joined] = root;
    sizes_[root] += sizes_[joined];
    stands_for_[root] = resolved;
  }
  groups_[from] = root;
  ++sizes_[root];
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
