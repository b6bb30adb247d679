#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

// Models that are trained on several losses of their own instead of a head's loss (graph/heads.h).
namespace ampd::graph {

// One of a model's losses, and the parameters that this loss trains.
struct Loss {
  std::string network;     // "generator"
  std::string output;      // "generator_loss", an fp32 scalar.
  std::string parameters;  // "generator.*", a glob on parameter names.
};

// The losses of a model whose outputs are called "<network>_loss", in the order in which a step computes them. Empty
// for a model with a head.
std::vector<Loss> LossesOf(const Graph& model);

// The graph of everything that a training step computes. Precision policies are resolved for this graph. For a model
// with a head it is the result of WithLossHead (graph/passes.h); a model with its own losses is returned as it is.
// Returns the errors of WithLossHead.
absl::StatusOr<Graph> TrainedGraph(const Graph& model);

}  // namespace ampd::graph
