#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt.h"

// The outcomes that the agent makes for attempts whose trainers report no outcome. Pure.
namespace ampd::agent {

// The outcome of an attempt whose trainer exited without reporting one. `exit` is empty if the exit status was lost.
// `oom_is_a_guess`: whether the out-of-memory flag in `exit` is only a guess of the shim.
v1::Outcome OutcomeFromExit(const AttemptOnWorker& attempt, const std::optional<internal::ShimStatus>& exit,
                            bool oom_is_a_guess);

// The outcome of an attempt for which the worker can't start a trainer. The cause is on this worker (too many
// processes, a missing program), so another worker may succeed.
v1::Outcome CannotStartTrainer(const absl::Status& status, int64_t last_step);

// The outcome of an attempt whose trainer was killed because it had sent a report that can't be parsed.
v1::Outcome SentUnreadable(const AttemptOnWorker& attempt);

// The outcome of an attempt whose artifact the worker can't download. `error`: the error of ArtifactCache::Lookup.
// Blames the worker if its disk is full or its file system fails, and otherwise the user.
v1::Outcome CannotFetchArtifact(const std::string& artifact, const absl::Status& error, int64_t last_step);

// The outcome of an attempt that was ordered to leave, for `reason`, before its trainer started.
v1::Outcome LeftBeforeStart(v1::Reason::Code reason, int64_t last_step);

}  // namespace ampd::agent
