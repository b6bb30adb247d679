#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "graph/graph.h"
#include "worker/amp/engine.h"

// What a job draws while it trains (JobSpec.sample), by its model's generator (models/samples.h).
namespace ampd::train {

// INVALID_ARGUMENT when the generator can't draw such samples, or the spec has no bounds or defaults of admission's.
absl::Status CheckSample(const v1::SampleSpec& spec, const graph::Graph& generator);

// The sample of a step: sample.txt or sample.png, without a sequence. A text is drawn byte by byte, each by a run of
// the whole context, the last T bytes; pictures row by row, of the same noise at every step. The random numbers are of
// (seed, step) alone. `is_told_to_stop` is asked before each byte and row: once it says so, there is no sample.
// REQUIRES: CheckSample found nothing, and the engine has the generator.
absl::StatusOr<std::optional<v1::Sample>> DrawSample(const v1::SampleSpec& spec, const graph::Graph& generator,
                                                     uint64_t seed, int64_t step, amp::Engine& engine,
                                                     absl::FunctionRef<bool()> is_told_to_stop);

}  // namespace ampd::train
