#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

// Finds the blocks of a model. A block is a numbered module, such as an entry of a list of layers: "transformer.h.3",
// "layer1.0", "layers.2".
namespace ampd::graph {

// Returns the path up to its first numeric component, for example "layers.2" for "layers.2.attention"; an empty string
// if no component is numeric.
std::string BlockOf(const std::string& module_path);

// The blocks that a graph's nodes belong to, each once, in the order of their first nodes.
std::vector<std::string> BlocksOf(const Graph& graph);

}  // namespace ampd::graph
