#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt.h"

// Decides whether an attempt's trainer may start, or must wait for the artifact that the attempt needs. Pure.
namespace ampd::agent {

// The artifact from which the attempt's trainer loads the model; empty if it needs no artifact. A trainer that resumes
// training needs none, because the checkpoint contains the model.
std::string ArtifactOf(const v1::AttemptDirective& wanted);

// The artifact that the attempt waits for; empty if it waits for none. Only a starting attempt needs its artifact: a
// running attempt has already loaded its model, and an ended attempt will not load it.
std::string ArtifactNeededBy(const AttemptOnWorker& attempt);

// The state of an artifact on this worker: stored here, not stored yet, or failed for good.
struct ArtifactState {
  bool is_here = false;
  absl::Status error;
};

struct GateDecision {
  bool may_start = false;
  std::optional<v1::Outcome> outcome;  // set if the attempt ends without a start; its trainer is then killed
};

// Decides what happens to an attempt whose trainer has sent `hello`. The attempt may start if it needs no artifact, if
// the artifact is here, or if an earlier agent has already started the trainer with this attempt. The attempt ends if
// the artifact can't be downloaded, or if the attempt was ordered to leave before the artifact arrived. Otherwise it
// waits. REQUIRES: attempt.wanted is set.
GateDecision CheckArtifact(const AttemptOnWorker& attempt, const std::optional<internal::Hello>& hello,
                           const ArtifactState& artifact);

}  // namespace ampd::agent
