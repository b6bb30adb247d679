#include "worker/agent/attempts/artifact_gate.h"

#include "worker/agent/attempts/outcomes.h"

namespace ampd::agent {

std::string ArtifactOf(const v1::AttemptDirective& wanted) {
  const bool resumes = wanted.has_start_from() && !wanted.weights_only();
  return resumes ? std::string() : wanted.spec().model().exported().artifact();
}

std::string ArtifactNeededBy(const AttemptOnWorker& attempt) {
  const bool is_starting = attempt.held.state != v1::Attempt::ENDED && attempt.trainer_state == v1::Attempt::STARTING;
  return is_starting && attempt.wanted.has_value() ? ArtifactOf(*attempt.wanted) : std::string();
}

GateDecision CheckArtifact(const AttemptOnWorker& attempt, const std::optional<internal::Hello>& hello,
                           const ArtifactState& artifact) {
  const std::string name = ArtifactOf(*attempt.wanted);
  if (name.empty()) {
    return {.may_start = true};
  }
  // An earlier agent may already have started this attempt on the trainer. Only the trainer's Hello shows that, so wait
  // for the Hello.
  if (!hello.has_value()) {
    return {};
  }
  if (SameAttempt(hello->key(), attempt.held.key)) {
    return {.may_start = true};
  }
  if (attempt.held.state == v1::Attempt::ENDED) {
    return {};  // an ended attempt needs no artifact
  }
  if (artifact.is_here) {
    return {.may_start = true};
  }
  const int64_t last_step = attempt.wanted->start_from().step();
  if (!artifact.error.ok()) {
    return {.outcome = CannotFetchArtifact(name, artifact.error, last_step)};
  }
  if (attempt.held.sent_desired != v1::Job::RUN) {
    return {.outcome = LeftBeforeStart(attempt.leave_reason, last_step)};
  }
  return {};
}

}  // namespace ampd::agent
