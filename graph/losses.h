#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

// Models that are trained on several losses of their own instead of the one of their head (graph/heads.h).
namespace ampd::graph {

// One of a model's losses, and what is trained by it.
struct Loss {
  std::string network;     // "generator"
  std::string output;      // "generator_loss", a fp32 scalar
  std::string parameters;  // "generator.*", a glob on their names
};

// Of a model whose outputs are called "<network>_loss", in the order in which a step goes through them; empty for a
// model with a head.
std::vector<Loss> LossesOf(const Graph& model);

// All that a step computes, what a policy is resolved for: WithLossHead of a model with a head; a model with losses of
// its own as it is. Errors as WithLossHead.
absl::StatusOr<Graph> TrainedGraph(const Graph& model);

}  // namespace ampd::graph
