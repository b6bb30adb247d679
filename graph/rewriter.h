#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ampd::graph {

// Makes a changed copy of a graph, node by node: the tool that passes are written with.
//
//   Rewriter rewriter(source);
//   for (const Node& node : source.nodes()) {
//     if (node.op == "aten.dropout.default") {
//       rewriter.ReplaceUses(node.outputs[0], *node.ValueOf("input"));   // the node goes, its readers read its input
//     } else {
//       rewriter.Keep(node);
//     }
//   }
//   return std::move(rewriter).Finish();
//
// The copy starts with all values, inputs, parameters, buffers and outputs of the source, under the same ids, and no
// node. Emit() inserts a node before the one kept next. Thread-compatible.
class Rewriter {
 public:
  explicit Rewriter(const Graph& source);

  const Graph& target() const { return target_; }

  // Appends a node, its uses replaced as told so far. The node may be changed before it is kept.
  void Keep(Node node);
  // Appends a node with one new output, and returns that. The name gets a suffix when it is taken.
  ValueId Emit(Node node, std::string_view output_name, TensorType type);
  // Every later use of `from`, by a node or an output of the graph, becomes a use of `to`. Uses that ReplaceUses itself
  // redirects to `from` follow.
  void ReplaceUses(ValueId from, ValueId to);
  // What stands for a value of the source now.
  ValueId Resolve(ValueId value) const;
  // Changes the type of a value that is defined here or in the source.
  void SetType(ValueId value, TensorType type) { target_.SetType(value, std::move(type)); }
  ValueId AddInput(std::string_view name, TensorType type) { return target_.AddInput(name, std::move(type)); }
  void SetOutputs(std::vector<Output> outputs) { target_.SetOutputs(std::move(outputs)); }

  Graph Finish() &&;

 private:
  size_t Root(size_t group) const;

  Graph target_;
  std::vector<Node> nodes_;
  // Values that are replaced are in groups, each of which has one value that replaces all of its members. A group is a
  // tree that others are joined to, smaller ones to larger ones.
  std::map<ValueId, size_t> groups_;  // of values that are replaced
  std::map<ValueId, size_t> roots_;   // by the values that replace
  std::vector<ValueId> stands_for_;   // by groups, of roots alone: what replaces the members
  std::vector<size_t> parents_;       // by groups; a root is its own
  std::vector<int64_t> sizes_;        // by groups, of roots alone: members, with those that have left for another
};

}  // namespace ampd::graph
