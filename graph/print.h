#pragma once

#include <string>

#include "graph/graph.h"

namespace ampd::graph {

// A graph as text, with one line per input, parameter, buffer, node and output. Equal graphs have equal texts. Golden
// tests compare it, and people read it.
//
//   graph tiny
//   input %images: float32[B, 784]
//   parameter %0.weight: float32[10, 784] kaiming_uniform(fan_in=784)
//   %linear: float32[B, 10] = aten.linear.default(input=%images, weight=%0.weight)  # 0
//   output logits = %linear
std::string ToText(const Graph& graph);

// "float32[B, 10]"; a multiple of the batch size prints as "4*B".
std::string ToText(const TensorType& type);

}  // namespace ampd::graph
