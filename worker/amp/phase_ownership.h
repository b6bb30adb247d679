#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/amp/phase.h"

namespace ampd::amp {

// Returns the index of the phase that each of the model's parameters belongs to. Returns INVALID_ARGUMENT (reason
// BAD_PHASES) if a parameter belongs to no phase or to two, a phase has no parameter, or two phases share a name.
absl::StatusOr<std::vector<size_t>> PhasesOfParameters(const graph::Graph& model,
                                                       const std::vector<PhaseOptions>& phases);

}  // namespace ampd::amp
