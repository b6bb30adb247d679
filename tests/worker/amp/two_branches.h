#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace ampd::amp {

struct TwoBranches {
  graph::Graph train;
  std::optional<graph::Graph> eval;  // The model for evaluation; see EngineOptions::eval_model.
};

// Returns the model that stochastic_depth_test.cc trains. Each test program links its own definition of this function:
// one builds the graph with GraphBuilder (built_two_branches.cc), the other reads a graph that torch.export wrote
// (tests/parity/exported_two_branches.cc).
//
// The model's output "predictions" is the sum of two branches of `images` (B, size). Each branch multiplies the images
// by one weight per feature, "first.weight" and "second.weight" (size), initially 0, and drops samples with the
// probability of that branch. Throws if the model cannot be made.
TwoBranches TwoBranchesOf(int64_t size, const std::array<double, 2>& probabilities);

}  // namespace ampd::amp
