#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "graph/graph.h"
#include "worker/amp/engine.h"
#include "worker/amp/plateau.h"

namespace ampd::train {

// Reads the engine's step options from the spec: optimizer, schedule, clipping and seed. A model that computes its own
// losses has one phase per loss. Every phase has its own optimizer, its own learning-rate schedule, which counts the
// steps that the phase applied, and its own gradient clipping. Leaves the options for segments, device and evaluation
// unset. SPEC_ERROR for an unknown kind of optimizer or schedule.
absl::StatusOr<amp::EngineOptions> EngineOptionsOf(const v1::JobSpec& spec, const graph::Graph& model,
                                                   int64_t total_steps);

// The spec's plateau schedule; nullopt if the learning rate depends on steps alone.
std::optional<amp::PlateauConfig> PlateauOf(const v1::ScheduleSpec& spec);

}  // namespace ampd::train
