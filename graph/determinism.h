#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

// Finds ops that LibTorch 2.11 computes on a GPU only with nondeterministic algorithms, which may give other bits in
// each run. LibTorch's deterministic mode, which training uses by default, throws at such an op. Source: the callers of
// at::globalContext().alertNotDeterministic in libtorch_cuda.so.
namespace ampd::graph {

// If the node is an adaptive average pool that equals an average pool with windows of one size, returns the height and
// width of these windows. The two are equal if each size of the input is a multiple of the corresponding size of the
// output. The adaptive form is not deterministic on a GPU, but the average pool is. Returns nothing for a pool over the
// whole image, which LibTorch computes as a mean.
std::optional<std::vector<int64_t>> EqualWindows(const Graph& graph, const Node& node);

struct NondeterministicOp {
  std::string op;           // For example "aten.pad.default".
  std::string module_path;  // Empty if the op belongs to no module.
  std::string what;         // For messages, for example "a padding that repeats the border".
};

// Returns the first op of the graph that has no deterministic algorithm on a GPU, forward or backward. Does not return
// pools that have EqualWindows, because the precision pass replaces these on a GPU.
std::optional<NondeterministicOp> FindNondeterministicOp(const Graph& graph);

}  // namespace ampd::graph
