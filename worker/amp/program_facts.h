#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

// Properties of the training program that the engine needs to know before it runs a step.
namespace ampd::amp {

// Names of the model's buffers that a run of the program overwrites: running statistics. Each name occurs once.
std::vector<std::string> WrittenBuffers(const graph::Graph& program);

// For each batch counter, by name: how many batches a run of the program adds to it. Counters that a run does not
// change are left out.
std::map<std::string, int64_t> BatchesCounted(const graph::Graph& program);

// Whether a run draws random numbers.
bool IsRandom(const graph::Graph& program);

// A parameter, and the module that reads it last in the forward pass. If no module reads the parameter, `module_path`
// is the module that owns it.
struct ParameterReader {
  std::string parameter;
  std::string module_path;
};

// All parameters in the order in which the backward pass computes their gradients. It starts with the module that reads
// parameters last in the forward pass; parameters with the same reader stay in the model's order. So if a fault arises
// in the backward pass, the first faulty gradient in this order is the one where it arose.
std::vector<ParameterReader> BackwardOrder(const graph::Graph& program);

}  // namespace ampd::amp
