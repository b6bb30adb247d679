#include "server/state/job_edit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;
using v1::Job;

constexpr int kDefaultMaxRetries = 2;

// Returns the state of an unfinished job after its attempt has ended: PAUSED if the user wants that, otherwise QUEUED.
Job::State RestingState(const Job& job) { return job.desired() == Job::PAUSE ? Job::PAUSED : Job::QUEUED; }

int MaxRetries(const Job& job) { return job.spec().has_max_retries() ? job.spec().max_retries() : kDefaultMaxRetries; }

std::string MessageOf(const Job& job, const v1::Outcome& outcome) {
  const std::string what = outcome.message().empty() ? v1::Reason::Code_Name(outcome.reason()) : outcome.message();
  return absl::StrCat("attempt ", job.num_attempts(), ": ", what);
}

absl::Status GoToRest(const v1::Outcome& outcome, JobEdit& edit) {
  const Job::State to = RestingState(edit.job());
  const v1::Reason::Code reason = to == Job::PAUSED ? v1::Reason::USER_PAUSED : outcome.reason();
  return edit.Move(to, reason, to == Job::PAUSED ? "" : MessageOf(edit.job(), outcome));
}

// Called when an attempt failed, disappeared, or exited although nobody asked it to. Decides whether the job is retried
// or ends.
absl::Status RetryOrFail(const v1::Outcome& outcome, JobEdit& edit) {
  const Blame blame = BlameFor(outcome.reason());
  Job& job = edit.job();
  const bool saved = edit.record().last_checkpoint_attempt() == job.num_attempts();
  const int fruitless = saved ? 0 : edit.record().attempts_without_checkpoint() + 1;
  edit.record().set_attempts_without_checkpoint(fruitless);
  if (blame == Blame::USER || (blame == Blame::JOB && job.num_retries_used() >= MaxRetries(job))) {
    return edit.Move(Job::FAILED, outcome.reason(), MessageOf(job, outcome));
  }
  // A job that predicts makes no checkpoints, so their absence says nothing about its progress. max_retries limits its
  // failures instead.
  if (fruitless >= kMaxAttemptsWithoutCheckpoint && !job.spec().has_predict()) {
    return edit.Move(Job::FAILED, v1::Reason::NO_PROGRESS,
                     absl::StrCat(fruitless, " attempts in a row ended without a new checkpoint; the last: ",
                                  MessageOf(job, outcome)));
  }
  if (blame == Blame::JOB) {
    job.set_num_retries_used(job.num_retries_used() + 1);
  }
  edit.record().set_not_before_unix_micros(edit.time_unix_micros() + absl::ToInt64Microseconds(RetryDelay(fruitless)));
  return GoToRest(outcome, edit);
}

// Returns when an attempt that ends at `end_unix_micros` ran its first step. Computes this time from the number of
// steps and their mean speed. If the speed is not known, returns the time of the end.
int64_t StartBefore(int64_t end_unix_micros, const v1::Attempt& attempt, const v1::Outcome& outcome) {
  const double speed = outcome.final_metrics().steps_per_second();
  const double seconds = speed > 0 ? static_cast<double>(outcome.last_step() - attempt.from_step()) / speed : 0;
  const int64_t assigned = TimeUtil::TimestampToMicroseconds(attempt.assign_time());
  const int64_t longest = std::max<int64_t>(0, end_unix_micros - assigned);
  return end_unix_micros - static_cast<int64_t>(std::min(seconds * 1e6, static_cast<double>(longest)));
}

absl::Status EndCancelled(const v1::Outcome& outcome, JobEdit& edit) {
  if (edit.record().deadline_expired()) {
    return edit.Move(Job::FAILED, v1::Reason::DEADLINE, "the job's deadline passed");
  }
  return edit.Move(Job::CANCELLED, v1::Reason::USER_CANCELLED,
                   outcome.kind() == v1::Outcome::FINISHED ? "it finished while being cancelled" : "");
}

}  // namespace

JobEdit::JobEdit(const internal::JobRecord& base, int64_t time_unix_micros)
    : record_(std::make_shared<internal::JobRecord>(base)), time_unix_micros_(time_unix_micros) {}

absl::Status JobEdit::Move(Job::State to, v1::Reason::Code reason, std::string message) {
  const Job::State from = job().state();
  if (!IsLegalMove(from, to)) {
    return Error(
        absl::StatusCode::kFailedPrecondition, "ILLEGAL_MOVE",
        absl::StrCat("job ", job().id(), " is ", Job::State_Name(from), " and can't become ", Job::State_Name(to)));
  }
  v1::Event& event = AddEvent(v1::Event::STATE_CHANGED);
  event.set_from_state(from);
  event.set_to_state(to);
  event.set_reason(reason);
  event.set_message(message);
  job().set_state(to);
  job().set_reason(reason);
  job().set_message(std::move(message));
  if (IsTerminal(to)) {
    *job().mutable_end_time() = TimeUtil::MicrosecondsToTimestamp(time_unix_micros_);
  }
  return absl::OkStatus();
}

v1::Event& JobEdit::AddEvent(v1::Event::Kind kind) {
  record_->set_last_event(record_->last_event() + 1);
  events_.push_back({job().id(), {}});
  v1::Event& event = events_.back().event;
  event.set_sequence(record_->last_event());
  event.set_kind(kind);
  event.set_time_unix_micros(time_unix_micros_);
  if (job().attempts_size() > 0 && kind != v1::Event::CREATED) {
    event.set_attempt(job().num_attempts());
  }
  return event;
}

v1::Attempt& JobEdit::AddAttempt(const std::string& token) {
  if (job().attempts_size() == kAttemptsKept) {
    job().mutable_attempts()->DeleteSubrange(0, 1);
    record_->mutable_tokens()->DeleteSubrange(0, 1);
  }
  record_->add_tokens(token);
  job().set_num_attempts(NextAttemptNumber(*record_));
  v1::Attempt& attempt = *job().add_attempts();
  attempt.set_number(job().num_attempts());
  attempt.set_state(v1::Attempt::ASSIGNED);
  *attempt.mutable_assign_time() = TimeUtil::MicrosecondsToTimestamp(time_unix_micros_);
  return attempt;
}

void JobEdit::SetStart(int64_t start_unix_micros) {
  *newest_attempt().mutable_start_time() = TimeUtil::MicrosecondsToTimestamp(start_unix_micros);
  if (!job().has_start_time()) {
    *job().mutable_start_time() = newest_attempt().start_time();
  }
}

void JobEdit::CloseAttempt(const v1::Outcome& outcome) {
  v1::Attempt& attempt = newest_attempt();
  // If all steps ran since the worker's last report, no report had the state RUNNING.
  if (!attempt.has_start_time() && outcome.last_step() > attempt.from_step()) {
    SetStart(StartBefore(time_unix_micros_, attempt, outcome));
  }
  attempt.set_state(v1::Attempt::ENDED);
  *attempt.mutable_outcome() = outcome;
  *attempt.mutable_end_time() = TimeUtil::MicrosecondsToTimestamp(time_unix_micros_);
  v1::Event& event = AddEvent(v1::Event::ATTEMPT_ENDED);
  event.set_reason(outcome.reason());
  event.set_message(outcome.message());
  event.set_step(outcome.last_step());
}

void JobEdit::Finish(Applied* applied) {
  record_->set_version(record_->version() + 1);
  job().set_etag(absl::StrCat(record_->version()));
  applied->changed = true;
  applied->jobs.push_back(std::move(record_));
  for (JobEvent& event : events_) {
    applied->events.push_back(std::move(event));
  }
}

absl::Status EndNewestAttempt(const v1::Outcome& outcome, JobEdit& edit) {
  const Job::State state = edit.job().state();
  edit.CloseAttempt(outcome);
  if (state == Job::CANCELLING) {
    return EndCancelled(outcome, edit);
  }
  if (outcome.kind() == v1::Outcome::FINISHED) {
    return edit.Move(Job::SUCCEEDED, v1::Reason::SUCCEEDED_NORMALLY, outcome.message());
  }
  if (outcome.kind() == v1::Outcome::LEFT && state == Job::PAUSING) {
    return GoToRest(outcome, edit);
  }
  return RetryOrFail(outcome, edit);
}

}  // namespace ampd::server
