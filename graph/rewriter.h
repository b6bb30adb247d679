#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ampd::graph {

// Copies a graph node by node, with changes. Passes are written with it.
//
//   Rewriter rewriter(source);
//   for (const Node& node : source.nodes()) {
//     if (node.op == "aten.dropout.default") {
//       rewriter.ReplaceUses(node.outputs[0], *node.ValueOf("input"));   // drops the node; its readers read its input
//     } else {
//       rewriter.Keep(node);
//     }
//   }
//   return std::move(rewriter).Finish();
//
// The copy starts with all values, inputs, parameters, buffers and outputs of the source, with the same ids, and no
// nodes. Emit() and Keep() append to the end of the copy, so an emitted node comes before the next node that is kept.
// Thread-compatible.
class Rewriter {
 public:
  explicit Rewriter(const Graph& source);

  const Graph& target() const { return target_; }

  // Appends a node of the source, which the caller may have changed. Replaces the values that it reads as earlier calls
  // of ReplaceUses requested.
  void Keep(Node node);
  // Appends a node with one new output, and returns that output. The name gets a suffix if it is already used.
  ValueId Emit(Node node, std::string_view output_name, TensorType type);
  // Adds a value that a later node defines. The name gets a suffix if it is already used.
  ValueId AddValue(std::string_view name, TensorType type) { return target_.AddValue(name, std::move(type)); }
  // Replaces `from` by `to` in every later node and in the graph's outputs. If an earlier call replaced a value by
  // `from`, that value is replaced by `to` from now on.
  void ReplaceUses(ValueId from, ValueId to);
  // Returns the value that currently replaces `value`, a value of the source.
  ValueId Resolve(ValueId value) const;
  // Changes the type of a value of the copy or of the source.
  void SetType(ValueId value, TensorType type) { target_.SetType(value, std::move(type)); }
  ValueId AddInput(std::string_view name, TensorType type) { return target_.AddInput(name, std::move(type)); }
  void SetOutputs(std::vector<Output> outputs) { target_.SetOutputs(std::move(outputs)); }

  Graph Finish() &&;

 private:
  size_t Root(size_t group) const;

  Graph target_;
  std::vector<Node> nodes_;
  // Replaced values form groups; one value replaces all members of a group. The groups are union-find trees, in which
  // smaller groups are joined to larger ones.
  std::map<ValueId, size_t> groups_;  // Groups by replaced value.
  std::map<ValueId, size_t> roots_;   // Root groups by replacing value.
  std::vector<ValueId> stands_for_;   // Replacing value by group; valid for roots only.
  std::vector<size_t> parents_;       // Parent by group; a root is its own parent.
  std::vector<int64_t> sizes_;        // Number of values by group; for a root, with those of all groups joined to it.
};

}  // namespace ampd::graph
