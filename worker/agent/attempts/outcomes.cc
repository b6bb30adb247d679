#include "worker/agent/attempts/outcomes.h"

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ampd::agent {

using v1::Job;
using v1::Outcome;

namespace {

void Explain(const AttemptOnWorker& attempt, const internal::ShimStatus& exit, bool oom_is_a_guess, Outcome* outcome) {
  outcome->set_exit_code(exit.exit_code());
  outcome->set_signal(exit.signal());
  if (attempt.held.sent_desired == Job::CANCEL) {
    outcome->set_kind(Outcome::LEFT);
    outcome->set_reason(attempt.leave_reason);
    outcome->set_message("the worker killed the trainer after a cancel");
  } else if (exit.killed()) {
    outcome->set_reason(v1::Reason::WORKER_LOST);
    outcome->set_message("the worker killed the trainer: its lease ran out, or it did not leave in time");
  } else if (exit.out_of_memory()) {
    outcome->set_reason(v1::Reason::OUT_OF_MEMORY);
    outcome->set_message(
        absl::StrCat(oom_is_a_guess ? "probably " : "",
                     "the kernel killed the trainer because memory ran out: use a smaller data.batch_size, "
                     "model or data set, or raise train.gradient_accumulation"));
  } else if (exit.signal() != 0) {
    outcome->set_message(absl::StrCat("the trainer was killed by signal ", exit.signal(), " (",
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
  outcome.set_reason(v1::Reason::TRAINER_CRASHED);
  outcome.set_last_step(attempt.step);
  outcome.set_last_sequence(attempt.backlog.telemetry().received());
  if (exit.has_value()) {
    Explain(attempt, *exit, oom_is_a_guess, &outcome);
  } else {
    outcome.set_kind(Outcome::GONE);
    outcome.set_reason(v1::Reason::WORKER_LOST);
    outcome.set_message("the trainer is gone and left no exit status");
  }
  return outcome;
}

v1::Outcome CannotStartTrainer(const absl::Status& status, int64_t last_step) {
  Outcome outcome;
  outcome.set_kind(Outcome::FAILED);
  outcome.set_reason(absl::IsResourceExhausted(status) ? v1::Reason::DISK_FULL : v1::Reason::DEVICE_ERROR);
  outcome.set_message(absl::StrCat("the worker can't start a trainer: ", std::string(status.message())));
  outcome.set_last_step(last_step);
  return outcome;
}

v1::Outcome SentUnreadable(const AttemptOnWorker& attempt) {
  Outcome outcome;
  outcome.set_kind(Outcome::FAILED);
  outcome.set_reason(v1::Reason::INTERNAL);
  outcome.set_message(
      "the trainer sent a report that the worker can't read, perhaps the attempt's outcome; the attempt's log may say "
      "more");
  outcome.set_last_step(attempt.step);
  outcome.set_last_sequence(attempt.backlog.telemetry().received());
  return outcome;
}

v1::Outcome CannotFetchArtifact(const std::string& artifact, const absl::Status& error, int64_t last_step) {
  Outcome outcome;
  outcome.set_kind(Outcome::FAILED);
  outcome.set_reason(absl::IsResourceExhausted(error) ? v1::Reason::DISK_FULL
                     : absl::IsInternal(error)        ? v1::Reason::DEVICE_ERROR
                                                      : v1::Reason::DATA_ERROR);
  outcome.set_message(
      absl::StrCat("model.exported.artifact: the worker can't fetch ", artifact, ": ", std::string(error.message())));
  outcome.set_last_step(last_step);
  return outcome;
}

v1::Outcome LeftBeforeStart(v1::Reason::Code reason, int64_t last_step) {
  Outcome outcome;
  outcome.set_kind(Outcome::LEFT);
  outcome.set_reason(reason);
  outcome.set_message("the attempt was stopped before its trainer started");
  outcome.set_last_step(last_step);
  return outcome;
}

}  // namespace ampd::agent
