#include "server/coordinator/directives.h"

#include <map>
#include <utility>

#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using internal::JobRecord;
using v1::Attempt;
using v1::Job;

// Adds the older checkpoints that the worker can reach. The worker starts from one of them if start_from is damaged.
// Adds nothing if `worker` is null, which means that the worker is not registered.
void AddOlderCheckpoints(const JobRecord& record, const WorkerRecordPtr& worker, v1::AttemptDirective* directive) {
  if (!directive->has_start_from() || worker == nullptr) {
    return;
  }
  for (v1::Checkpoint& older : OlderThan(record, directive->start_from())) {
    if (Reaches(*worker, older)) {
      *directive->add_older_checkpoints() = std::move(older);
    }
  }
}

v1::AttemptDirective ToDirective(const JobRecord& record, const WorkerRecordPtr& worker) {
  const Job& job = record.job();
  const Attempt& attempt = *job.attempts().rbegin();
  v1::AttemptDirective directive;
  *directive.mutable_key() = NewestKey(record);
  *directive.mutable_spec() = job.spec();
  directive.set_desired(job.state() == Job::CANCELLING ? Job::CANCEL
                        : job.state() == Job::PAUSING  ? Job::PAUSE
                                                       : Job::RUN);
  directive.set_desired_reason(job.reason());
  *directive.mutable_devices() = attempt.devices();
  if (record.has_start_from()) {
    *directive.mutable_start_from() = record.start_from();
    directive.set_weights_only(!ResumesTraining(job.spec(), record.start_from()));
  }
  AddOlderCheckpoints(record, worker, &directive);
  directive.set_precision(attempt.precision());
  if (attempt.has_loss_scale()) {
    *directive.mutable_loss_scale() = attempt.loss_scale();
  }
  if (record.has_live_loss_scale()) {
    *directive.mutable_live_loss_scale() = record.live_loss_scale();
  }
  directive.set_gradient_request_number(record.gradient_request_number());
  if (record.has_profile_request()) {
    *directive.mutable_profile() = record.profile_request();
  }
  directive.set_traceparent(record.job().traceparent());
  return directive;
}

// Acknowledges reported facts, so that the worker stops reporting them: the facts that are on disk, and those that the
// server will never need.
void Acknowledge(const v1::WorkerReport& report, const ClusterState& state, v1::WorkerDirective* directive) {
  for (const v1::AttemptReport& reported : report.attempts()) {
    const JobRecordPtr record = state.FindJob(reported.key().job_id());
    const auto attempt = record == nullptr ? absl::StatusOr<const Attempt*>(Fenced(reported.key()))
                                           : FindAttemptByToken(*record, reported.key());
    const bool is_over = !attempt.ok() || (*attempt)->state() == Attempt::ENDED;
    if (reported.state() == Attempt::ENDED && is_over) {
      *directive->add_acknowledged_outcomes() = reported.key();
    }
    for (const v1::Checkpoint& checkpoint : reported.checkpoints()) {
      if (attempt.ok() && checkpoint.attempt() == reported.key().attempt() && IsRecorded(*record, checkpoint)) {
        v1::CheckpointKey& key = *directive->add_acknowledged_checkpoints();
        *key.mutable_attempt() = reported.key();
        key.set_step(checkpoint.step());
        key.set_path(checkpoint.path());
      }
    }
  }
}

// Returns the number of the first directive that contained the item. Returns `number`, the directive that is being
// built, if no earlier directive contained the item.
uint64_t FirstSent(const std::map<std::string, uint64_t>& first_sent, const std::string& item, uint64_t number) {
  const auto before = first_sent.find(item);
  return before == first_sent.end() ? number : before->second;
}

}  // namespace

v1::WorkerDirective BuildDirective(const ClusterState& state, const std::string& worker, uint64_t number,
                                   WorkerSession* session) {
  v1::WorkerDirective directive;
  directive.mutable_id()->set_number(number);
  directive.mutable_id()->set_epoch(state.epoch());
  directive.set_acknowledged_report(session->report.sequence());
  const WorkerRecordPtr registered = state.FindWorker(worker);
  std::map<std::string, uint64_t> attempts;
  for (const JobRecordPtr& record : state.JobsOn(worker)) {
    *directive.add_attempts() = ToDirective(*record, registered);
    const std::string name = NameOf(NewestKey(*record));
    attempts[name] = FirstSent(session->first_sent, name, number);
  }
  session->first_sent = std::move(attempts);
  Acknowledge(session->report, state, &directive);
  std::map<std::string, uint64_t> deletions;
  if (registered != nullptr) {
    *directive.mutable_delete_checkpoints() = registered->delete_checkpoints();
    for (const v1::CheckpointKey& key : registered->delete_checkpoints()) {
      deletions[key.path()] = FirstSent(session->first_sent_deletion, key.path(), number);
    }
  }
  session->first_sent_deletion = std::move(deletions);
  return directive;
}

}  // namespace ampd::server
