#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"

namespace ampd::train {

// What a spec says of the engine's step: optimizer, schedule, clipping and seed. A model with losses of its own has a
// phase for each, every one with what the spec says: an optimizer of that kind, the schedule over the steps that it
// applied, and the norm of its own gradients to clip by. Segments, device and evaluation are left out. SPEC_ERROR for a
// kind of optimizer or schedule that is not known here.
absl::StatusOr<amp::EngineOptions> EngineOptionsOf(const v1::JobSpec& spec, const graph::Graph& model,
                                                   int64_t total_steps);

// Nothing: the schedule goes by steps.
std::optional<amp::PlateauConfig> PlateauOf(const v1::ScheduleSpec& spec);

}  // namespace ampd::train
