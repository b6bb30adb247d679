#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

// Which values share memory, derived from the op table alone.
namespace ampd::graph {

// Maps each value of a graph to the value that owns its memory. A view uses the memory of its source, and the result of
// an in-place op uses the memory of the value that the op overwrites. A value that may be a view or a copy counts as a
// view. A cast to another dtype, or with copy=True, is a copy. Thread-compatible.
class Aliases {
 public:
  explicit Aliases(const Graph& graph);

  // Returns the index of the value that owns the memory of `value`. This may be `value` itself.
  int Of(ValueId value) const { return memory_[static_cast<size_t>(value.index)]; }

 private:
  std::vector<int> memory_;
};

// Returns the argument that the node returns without a change or a copy, as dropout with probability 0 does. Returns
// nothing if the node computes a result of its own.
std::optional<ValueId> GivenBack(const Node& node);

// Whether the node is a cast that was asked to copy, so that its result is new memory even if no dtype changes.
bool CopiesByRequest(const Node& node);

// For an in-place op, returns the value that the node overwrites and returns as its result. For any other op, returns
// nothing.
std::optional<ValueId> WrittenBy(const Node& node);

// Returns the argument whose elements all occur unchanged in the result of the node, in any shape; nothing if there is
// none. The result may have another dtype. For an in-place op, returns nothing.
std::optional<ValueId> ShownWhole(const Graph& graph, const Node& node);

// Returns, for each value of the graph by its index, whether the value is a parameter or a buffer.
std::vector<bool> StatesOf(const Graph& graph);

}  // namespace ampd::graph
