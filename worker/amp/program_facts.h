#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

// Properties of the training program that a step needs besides running it.
namespace ampd::amp {

// Names of the buffers that a run writes although they are inputs: running statistics. Each occurs once.
std::vector<std::string> WrittenBuffers(const graph::Graph& program);

// For each batch counter, by name: how many batches a run adds to it. Counters to which a run adds none are left out.
std::map<std::string, int64_t> BatchesCounted(const graph::Graph& program);

// Whether a run draws random numbers.
bool IsRandom(const graph::Graph& program);

// A parameter and the module that reads it last in the forward pass; the path of the module that owns it if none reads
// it.
struct ParameterReader {
  std::string parameter;
  std::string module_path;
};

// All parameters in the order in which the backward pass meets them: first those of the module that reads last.
// Parameters with the same reader stay in the model's order. A fault in the backward pass enters at the first parameter
// in this order that it touches, and spreads to those after it.
std::vector<ParameterReader> BackwardOrder(const graph::Graph& program);

}  // namespace ampd::amp
