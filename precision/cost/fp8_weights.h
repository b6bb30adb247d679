#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace ampd::precision {

// Returns the bytes of the FP8 weights that a step keeps while its forward and backward passes run
// (worker/amp/fp8/fp8_weight_cache.h): for each weight of an FP8 layer, one byte per element for the forward product
// and one for the input gradient, as far as these products are in FP8. Only weights that are parameters, or views of
// parameters, are kept. The few bytes of the scales are not counted. `program`: a training program to which the policy
// was applied.
int64_t Fp8WeightBytes(const graph::Graph& program);

}  // namespace ampd::precision
