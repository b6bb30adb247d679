#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"

namespace ampd::train {

// Reads the engine's step options from the spec: optimizer, schedule, clipping and seed. A model with losses of its own
// has one phase per loss. Every phase gets an optimizer of the spec's kind, the spec's schedule over the steps that the
// phase applied, and clipping by the norm of its own gradients. Segments, device and evaluation are not set. SPEC_ERROR
// for an unknown kind of optimizer or schedule.
absl::StatusOr<amp::EngineOptions> EngineOptionsOf(const v1::JobSpec& spec, const graph::Graph& model,
                                                   int64_t total_steps);

// The spec's plateau schedule; nullopt if the learning rate depends on steps alone.
std::optional<amp::PlateauConfig> PlateauOf(const v1::ScheduleSpec& spec);

}  // namespace ampd::train
