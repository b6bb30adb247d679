#include "worker/agent/attempts/attempt.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ampd::agent {

using v1::Attempt;
using v1::Job;
using v1::Outcome;

v1::AttemptReport ReportOf(const AttemptOnWorker& attempt, absl::Duration now) {
  v1::AttemptReport report;
  *report.mutable_key() = attempt.held.key;
  report.set_state(attempt.held.state);
  report.set_step(attempt.step);
  if (attempt.held.state == Attempt::ENDED && attempt.outcome.has_value()) {
    *report.mutable_outcome() = *attempt.outcome;
  }
  for (const SavedCheckpoint& saved : attempt.checkpoints) {
    const bool is_stored = attempt.telemetry.refused() || saved.after_sequence <= attempt.telemetry.acknowledged();
    const bool stands_still = now >= std::max(saved.seen_at, attempt.telemetry_stored_at) + kTelemetryStandstill;
    if (is_stored || stands_still || report.has_outcome()) {
      *report.add_checkpoints() = saved.checkpoint;
    }
  }
  report.set_precision(attempt.precision);
  report.set_emulated(attempt.emulated);
  report.set_total_steps(attempt.total_steps);
  return report;
}

bool TelemetryIsStored(const AttemptOnWorker& attempt) {
  const TelemetryRelay& telemetry = attempt.telemetry;
  return telemetry.refused() || (telemetry.empty() && telemetry.acknowledged() >= attempt.outcome_after_sequence);
}

namespace {

void Explain(const AttemptOnWorker& attempt, const internal::ShimStatus& exit, bool oom_is_a_guess, Outcome* outcome) {
  outcome->set_exit_code(exit.exit_code());
  outcome->set_signal(exit.signal());
  if (attempt.held.told == Job::CANCEL) {
    outcome->set_kind(Outcome::LEFT);
    outcome->set_reason(attempt.leave_reason);
    outcome->set_message("the trainer was ended after a cancel");
  } else if (exit.killed()) {
    outcome->set_reason(v1::WORKER_LOST);
    outcome->set_message("the trainer was ended by its worker: no lease, or not left in time");
  } else if (exit.out_of_memory()) {
    outcome->set_reason(v1::OUT_OF_MEMORY);
    outcome->set_message(absl::StrCat(oom_is_a_guess ? "probably " : "",
                                      "the kernel ended the trainer for want of memory: lower data.batch_size, the "
                                      "model or the data, or raise train.gradient_accumulation"));
  } else if (exit.signal() != 0) {
    outcome->set_message(absl::StrCat("the trainer was ended by signal ", exit.signal(), " (",
                                      sigabbrev_np(exit.signal()) ? sigabbrev_np(exit.signal()) : "?", ")"));
  } else {
    outcome->set_message(absl::StrCat("the trainer exited with code ", exit.exit_code(), " and no outcome"));
  }
}

}  // namespace

v1::Outcome OutcomeFromExit(const AttemptOnWorker& attempt, const std::optional<internal::ShimStatus>& exit,
                            bool oom_is_a_guess) {
  Outcome outcome;
  outcome.set_kind(Outcome::FAILED);
  outcome.set_reason(v1::TRAINER_CRASHED);
  outcome.set_last_step(attempt.step);
  outcome.set_last_sequence(attempt.telemetry.received());
  if (exit.has_value()) {
    Explain(attempt, *exit, oom_is_a_guess, &outcome);
  } else {
    outcome.set_kind(Outcome::GONE);
    outcome.set_reason(v1::WORKER_LOST);
    outcome.set_message("no process and no exit status are left of the trainer");
  }
  return outcome;
}

}  // namespace ampd::agent
