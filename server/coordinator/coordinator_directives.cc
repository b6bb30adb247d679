// Directives to workers.
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/util/time_util.h"
#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using google::protobuf::util::TimeUtil;
using internal::JobRecord;
using v1::Attempt;
using v1::Job;

// Adds the checkpoints that the worker reaches. A null worker is not registered and has no attempts.
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
  }
  AddOlderCheckpoints(record, worker, &directive);
  directive.set_precision(attempt.precision());
  if (attempt.has_loss_scale()) {
    *directive.mutable_loss_scale() = attempt.loss_scale();
  }
  if (record.loss_scale_order_number() > 0) {
    *directive.mutable_loss_scale_order() = record.loss_scale_order();
    directive.set_loss_scale_order_number(record.loss_scale_order_number());
  }
  if (record.has_earlier_loss_scale_order()) {
    *directive.mutable_earlier_loss_scale_order() = record.earlier_loss_scale_order();
  }
  directive.set_gradient_request_number(record.gradient_request_number());
  return directive;
}

// Acknowledges what is on disk, or will never be needed, so that the worker need not report it again.
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

}  // namespace

absl::StatusOr<v1::WorkerDirective> Coordinator::CurrentDirective(const std::string& worker,
                                                                  const std::string& incarnation) {
  absl::MutexLock lock(&mutex_);
  const auto session = sessions_.find(worker);
  if (session == sessions_.end() || incarnation.empty() || session->second.incarnation != incarnation) {
    return Error(StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("worker ", worker, " has not reported"));
  }
  return BuildDirective(worker, session->second, /*renew=*/false);
}

v1::WorkerDirective Coordinator::BuildDirective(const std::string& worker, Session& session, bool renew) {
  v1::WorkerDirective directive;
  // Numbers increase across all lives of the server, without a write for each.
  const uint64_t number = life_ << 32 | next_directive_++;
  directive.mutable_id()->set_number(number);
  directive.set_acknowledged_report(session.report.sequence());
  *directive.mutable_suspend_limit() =
      TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(options_.suspend_limit));
  if (renew) {
    *directive.mutable_lease() = TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(options_.lease));
    directive.set_renewal_of_boottime_nanos(session.report.send_boottime_nanos());
  }
  options_.ledger->Read([&](const ClusterState& state) {
    directive.mutable_id()->set_epoch(state.epoch());
    std::map<std::string, uint64_t> told;
    const WorkerRecordPtr registered = state.FindWorker(worker);
    for (const JobRecordPtr& record : state.JobsOn(worker)) {
      *directive.add_attempts() = ToDirective(*record, registered);
      const std::string name = NameOf(NewestKey(*record));
      const auto before = session.first_told.find(name);
      told[name] = before == session.first_told.end() ? number : before->second;
    }
    session.first_told = std::move(told);
    Acknowledge(session.report, state, &directive);
    std::map<std::string, uint64_t> deletions;
    if (const WorkerRecordPtr record = state.FindWorker(worker); record != nullptr) {
      *directive.mutable_delete_checkpoints() = record->delete_checkpoints();
      for (const v1::CheckpointKey& key : record->delete_checkpoints()) {
        const auto before = session.first_told_deletion.find(key.path());
        deletions[key.path()] = before == session.first_told_deletion.end() ? number : before->second;
      }
    }
    session.first_told_deletion = std::move(deletions);
  });
  return directive;
}

}  // namespace ampd::server
