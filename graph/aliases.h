#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

// Whose memory values show, told from the op table alone.
namespace ampd::graph {

// Which values of a graph show the memory of which others: views that of what they are views of, and the results of ops
// that write in place that of what they wrote. What may be a view or a copy counts as a view. Thread-compatible.
class Aliases {
 public:
  explicit Aliases(const Graph& graph);

  // The index of the value whose memory this one shows, which may be itself.
  int Of(ValueId value) const { return memory_[static_cast<size_t>(value.index)]; }

 private:
  std::vector<int> memory_;
};

// The argument that a node gives back as it is, no copy of it, as dropout does that drops nothing; nothing when it has
// a result of its own.
std::optional<ValueId> GivenBack(const Node& node);

// The value whose memory a node writes and gives as its result; nothing when it has a result of its own.
std::optional<ValueId> WrittenBy(const Node& node);

// By the index of a value: whether it is a parameter or a buffer.
std::vector<bool> StatesOf(const Graph& graph);

}  // namespace ampd::graph
