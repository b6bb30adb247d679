#include "worker/agent/attempts/attempt.h"

namespace ampd::agent {

using v1::Attempt;

v1::AttemptReport ReportOf(const AttemptOnWorker& attempt, absl::Duration now) {
  v1::AttemptReport report;
  *report.mutable_key() = attempt.held.key;
  report.set_state(attempt.held.state);
  report.set_step(attempt.step);
  if (attempt.held.state == Attempt::ENDED && attempt.outcome.has_value()) {
    *report.mutable_outcome() = *attempt.outcome;
  }
  for (v1::Checkpoint& checkpoint : attempt.backlog.ReportableCheckpoints(now, report.has_outcome())) {
    *report.add_checkpoints() = std::move(checkpoint);
  }
  report.set_precision(attempt.precision);
  report.set_emulated(attempt.emulated);
  report.set_total_steps(attempt.total_steps);
  return report;
}

v1::Attempt::State LivingState(const AttemptOnWorker& attempt, bool is_suspended) {
  if (is_suspended && attempt.trainer_state == Attempt::RUNNING) {
    return Attempt::SUSPENDED;
  }
  if (attempt.held.sent_desired != v1::Job::RUN) {
    return Attempt::STOPPING;
  }
  return attempt.trainer_state == Attempt::RUNNING ? Attempt::RUNNING : Attempt::STARTING;
}

}  // namespace ampd::agent
