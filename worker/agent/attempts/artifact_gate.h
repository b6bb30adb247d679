#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/agent/attempts/attempt.h"

// Decides whether an attempt's trainer may start, or must wait for the artifact that the attempt needs. Pure.
namespace ampd::agent {

// The artifact that the attempt's trainer reads; empty: none. A trainer that resumes training has its model in the
// checkpoint, by the rule of train::ResumesTraining (worker/train/plan/model_source.cc).
std::string ArtifactOf(const v1::AttemptDirective& wanted);

// The artifact that the attempt waits for; empty: none. Only attempts that are starting need their artifact: a running
// attempt has read its model already, and an ended attempt never will.
std::string ArtifactNeededBy(const AttemptOnWorker& attempt);

// The state of an artifact on this worker: here, not here yet, or an error that will not change.
struct ArtifactState {
  bool is_here = false;
  absl::Status error;
};

struct GateDecision {
  bool may_start = false;
  std::optional<v1::Outcome> outcome;  // set if the attempt ends without a start; its trainer is then killed
};

// Decides on an attempt whose trainer has sent `hello`. The attempt may start if it needs no artifact, if `artifact` is
// here, or if an earlier agent has already started this trainer with it. The attempt ends if the artifact can't be had,
// or if the attempt is to leave before the artifact has arrived. Otherwise it waits. REQUIRES: attempt.wanted.
GateDecision CheckArtifact(const AttemptOnWorker& attempt, const std::optional<internal::Hello>& hello,
                           const ArtifactState& artifact);

}  // namespace ampd::agent
