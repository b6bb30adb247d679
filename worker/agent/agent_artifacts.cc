// The artifacts that attempts need besides a trainer.
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/agent/agent.h"

namespace ampd::agent {
namespace {

using v1::Attempt;
using v1::Job;

// The artifact that the attempt's trainer reads; empty: none. A trainer that resumes training has its model in the
// checkpoint, by the rule of train::GoesOn (worker/train/plan/model_source.cc).
std::string ArtifactOf(const v1::AttemptDirective& wanted) {
  const v1::ModelSpec& model = wanted.spec().model();
  const bool has_weights_alone =
      model.has_initial_checkpoint() &&
      absl::StartsWith(wanted.start_from().path(), absl::StrCat(model.initial_checkpoint().job_id(), "/"));
  return wanted.has_start_from() && !has_weights_alone ? std::string() : model.exported().artifact();
}

// A bad artifact is the user's fault, a full disk or a failing file system the worker's: elsewhere or later it may
// work.
v1::Reason ReasonFor(const absl::Status& error) {
  return absl::IsResourceExhausted(error) ? v1::DISK_FULL : absl::IsInternal(error) ? v1::DEVICE_ERROR : v1::DATA_ERROR;
}

v1::Outcome CannotHave(const std::string& artifact, const absl::Status& why, int64_t last_step) {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::FAILED);
  outcome.set_reason(ReasonFor(why));
  outcome.set_message(
      absl::StrCat("model.exported.artifact: the worker can't fetch ", artifact, ": ", std::string(why.message())));
  outcome.set_last_step(last_step);
  return outcome;
}

v1::Outcome LeftBeforeItStarted(v1::Reason reason, int64_t last_step) {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::LEFT);
  outcome.set_reason(reason);
  outcome.set_message("told to leave before it started");
  outcome.set_last_step(last_step);
  return outcome;
}

}  // namespace

// Only attempts that are starting need their artifact: a running one has read its model, and an ended one never will.
void Agent::WantArtifacts() {
  std::set<std::string> artifacts;
  for (const std::unique_ptr<AttemptOnWorker>& attempt : attempts_) {
    const bool needs_it = attempt->held.state != Attempt::ENDED && attempt->trainer_state == Attempt::STARTING;
    const std::string artifact = needs_it && attempt->wanted.has_value() ? ArtifactOf(*attempt->wanted) : std::string();
    if (!artifact.empty()) {
      artifacts.insert(artifact);
    }
  }
  options_.artifacts->SetWanted(std::move(artifacts));
}

bool Agent::HasArtifact(AttemptOnWorker& attempt, SpawnedTrainer& trainer) {
  const std::string artifact = ArtifactOf(*attempt.wanted);
  if (artifact.empty()) {
    return true;
  }
  // If an earlier agent started the trainer with its artifact, it no longer needs one. Only its Hello shows this.
  if (!trainer.hello().has_value()) {
    return false;
  }
  if (SameAttempt(trainer.hello()->key(), attempt.held.key)) {
    return true;
  }
  if (attempt.held.state == Attempt::ENDED) {
    return false;  // its artifact is no longer wanted
  }
  const ArtifactCache::Look look = options_.artifacts->Find(artifact);
  if (look.state == ArtifactCache::Look::READY) {
    return true;
  }
  const bool is_failed = look.state == ArtifactCache::Look::FAILED;
  if (!is_failed && attempt.held.told == Job::RUN) {
    return false;
  }
  const int64_t last_step = attempt.wanted->start_from().step();
  End(attempt,
      is_failed ? CannotHave(artifact, look.error, last_step) : LeftBeforeItStarted(attempt.leave_reason, last_step));
  attempt.held.killed = true;
  trainer.Kill();
  return false;
}

}  // namespace ampd::agent
