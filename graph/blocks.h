#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

// A model's blocks: the modules that it numbers, as a list of layers does ("transformer.h.3", "layer1.0", "layers.2").
namespace ampd::graph {

// The path up to its first component that is a number, which is all of it for "layers.2"; empty without a number.
std::string BlockOf(const std::string& module_path);

// The blocks that a graph's nodes are in, each once, in the order of their first nodes.
std::vector<std::string> BlocksOf(const Graph& graph);

}  // namespace ampd::graph
