#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt.h"

// The outcomes that the agent writes itself, for attempts whose trainer reports none. Pure.
namespace ampd::agent {

// The outcome of a trainer that ended without reporting one. `exit` is empty if its exit status was lost.
// `oom_is_a_guess`: see SpawnFolder::OomIsAGuess.
v1::Outcome OutcomeFromExit(const AttemptOnWorker& attempt, const std::optional<internal::ShimStatus>& exit,
                            bool oom_is_a_guess);

// The outcome if the worker can't start a trainer. The fault is the worker's own (too many processes, a missing
// program), so another worker may succeed.
v1::Outcome CannotStartTrainer(const absl::Status& status, int64_t last_step);

// The outcome if the worker can't get the artifact. `error`: that of ArtifactCache::Lookup. The fault is the user's, or
// the worker's if its disk is full or its file system fails.
v1::Outcome CannotFetchArtifact(const std::string& artifact, const absl::Status& error, int64_t last_step);

// The outcome if the attempt was to leave, for `reason`, before its trainer started.
v1::Outcome LeftBeforeStart(v1::Reason reason, int64_t last_step);

}  // namespace ampd::agent
