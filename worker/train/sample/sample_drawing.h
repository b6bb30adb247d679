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

// Draws the samples of a job while it trains (JobSpec.sample), with its model's generator (models/samples.h).
namespace ampd::train {

// Checks that the generator can draw the samples of the spec. INVALID_ARGUMENT if it can't, or if the spec lacks the
// bounds or defaults that admission sets.
absl::Status CheckSample(const v1::SampleSpec& spec, const graph::Graph& generator);

// Draws the sample of a step, as sample.txt or sample.png. Does not set the sample's sequence number. A text is drawn
// byte by byte, and each byte needs a forward pass over the context, the last T bytes. Pictures are drawn row by row,
// from the same noise at every step. The random numbers depend on (seed, step) alone. Calls `should_stop` before each
// byte and row, and returns nullopt once it returns true. REQUIRES: CheckSample returned OK, and the engine has the
// generator.
absl::StatusOr<std::optional<v1::Sample>> DrawSample(const v1::SampleSpec& spec, const graph::Graph& generator,
                                                     uint64_t seed, int64_t step, amp::Engine& engine,
                                                     absl::FunctionRef<bool()> should_stop);

}  // namespace ampd::train
