#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace ampd::amp {

struct TwoBranches {
  graph::Graph train;
  std::optional<graph::Graph> eval;  // as EngineOptions::eval_model
};

// The model that stochastic_depth_test.cc trains, which each of its programs has from a source of its own: a graph of
// the builder (built_two_branches.cc), and one that torch.export wrote (tests/parity/exported_two_branches.cc).
//
// Its "predictions" are the sum of two branches of `images` (B, size), each of which multiplies them by a weight a
// feature, "first.weight" and "second.weight" (size), 0 at first, and leaves samples out with its probability. Throws
// where there can be none.
TwoBranches TwoBranchesOf(int64_t size, const std::array<double, 2>& probabilities);

}  // namespace ampd::amp
