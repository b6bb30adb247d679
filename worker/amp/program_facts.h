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

// By the name of a batch counter, how many batches a run adds to it. Counters to which it adds none are left out.
std::map<std::string, int64_t> BatchesCounted(const graph::Graph& program);

// Whether a run draws random numbers.
bool IsRandom(const graph::Graph& program);

// A parameter and the module that reads it last in the forward pass; the path of the module that owns it if none reads
// it.
struct ParameterReader {
  std::string parameter;
  std::string module_path;
};

// All parameters in the order in which the backward pass meets them: those of the last reader first. Parameters of one
// reader stay in the model's order. A fault in the backward pass enters at the first parameter in this order that it
// touches, and spreads to those after it.
std::vector<ParameterReader> BackwardOrder(const graph::Graph& program);

}  // namespace ampd::amp
