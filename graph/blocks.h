#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

// A model's blocks: its numbered modules, as in a list of layers ("transformer.h.3", "layer1.0", "layers.2").
namespace ampd::graph {

// The path up to its first numeric component ("layers.2" for "layers.2"); empty if there is none.
std::string BlockOf(const std::string& module_path);

// The blocks that a graph's nodes belong to, each once, in the order of their first nodes.
std::vector<std::string> BlocksOf(const Graph& graph);

}  // namespace ampd::graph
