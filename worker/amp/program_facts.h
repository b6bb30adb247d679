#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

// What a step must know of the training program beyond running it.
namespace ampd::amp {

// Buffers that a run writes although their values are inputs: running statistics. By name, each once.
std::vector<std::string> WrittenBuffers(const graph::Graph& program);

// By the name of a batch counter, how many batches a run adds to it; only of those to which it adds any.
std::map<std::string, int64_t> BatchesCounted(const graph::Graph& program);

// Whether a run draws random numbers.
bool IsRandom(const graph::Graph& program);

// A parameter and the module that reads it last in the forward pass; the parameter's own path when none reads it.
struct ParameterReader {
  std::string parameter;
  std::string module_path;
};

// All parameters in the order in which the backward pass meets them: the last reader's first. Those of one reader stay
// in the model's order. A fault of the backward pass enters at the first of them that it touches and spreads to those
// behind it.
std::vector<ParameterReader> BackwardOrder(const graph::Graph& program);

}  // namespace ampd::amp
