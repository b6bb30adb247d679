#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

// Which values share memory, derived from the op table alone.
namespace ampd::graph {

// Maps each value of a graph to the value whose memory it shows. A view shows the memory of its source, and the result
// of an in-place op shows the memory of the value that the op wrote. A value that may be a view or a copy counts as a
// view. Thread-compatible.
class Aliases {
 public:
  explicit Aliases(const Graph& graph);

  // Returns the index of the value whose memory `value` shows. If `value` has its own memory, returns its own index.
  int Of(ValueId value) const { return memory_[static_cast<size_t>(value.index)]; }

 private:
  std::vector<int> memory_;
};

// The argument that a node returns unchanged without copying, for example dropout with probability 0; nothing if the
// node has its own result.
std::optional<ValueId> GivenBack(const Node& node);

// The value whose memory a node writes and returns as its result; nothing if the node has its own result.
std::optional<ValueId> WrittenBy(const Node& node);

// Returns, for each value of the graph by its index, whether the value is a parameter or a buffer.
std::vector<bool> StatesOf(const Graph& graph);

}  // namespace ampd::graph
