// Workers' reports and directives.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"
#include "server/attempt_tokens.h"
#include "server/coordinator.h"
#include "server/job_rules.h"
#include "server/ledger.h"
#include "server/record_bounds.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using google::protobuf::util::MessageDifferencer;
using google::protobuf::util::TimeUtil;
using internal::JobRecord;
using v1::Attempt;
using v1::Job;

constexpr size_t kRetiredIncarnationsKept = 16;
constexpr size_t kMaxAgentIdBytes = 64;
constexpr size_t kMaxAgentPlaceBytes = 512;

std::string NameOf(const v1::AttemptKey& key) { return absl::StrCat(key.job_id(), "/", key.attempt()); }

// What is journaled of a report: not its free memory, which changes all the time.
internal::RegisterWorker ToRegistration(const v1::WorkerReport& report) {
  internal::RegisterWorker registration;
  v1::Worker& worker = *registration.mutable_worker();
  worker.set_name(report.worker());
  *worker.mutable_devices() = report.devices();
  for (v1::Device& device : *worker.mutable_devices()) {
    device.clear_memory_free_bytes();
  }
  worker.set_version(report.version());
  worker.set_metrics_address(report.metrics_address());
  worker.set_checkpoint_root_shared(report.checkpoint_root_shared());
  *registration.mutable_data_roots() = report.data_roots();
  *registration.mutable_agent() = report.agent();
  return registration;
}

bool IsRegistered(const internal::RegisterWorker& registration, const internal::WorkerRecord& record) {
  internal::RegisterWorker present;
  *present.mutable_worker() = record.worker();
  present.mutable_worker()->clear_drained();
  *present.mutable_data_roots() = record.data_roots();
  *present.mutable_agent() = record.agent();
  return MessageDifferencer::Equals(present, registration);
}

bool IsRecorded(const JobRecord& record, const v1::Checkpoint& checkpoint) {
  return checkpoint.attempt() < record.last_checkpoint_attempt() ||
         (checkpoint.attempt() == record.last_checkpoint_attempt() &&
          checkpoint.step() <= record.last_checkpoint_step());
}

internal::AdvanceAttempt ToAdvance(const v1::AttemptReport& report) {
  internal::AdvanceAttempt advance;
  *advance.mutable_key() = report.key();
  advance.set_state(report.state());
  advance.set_precision(report.precision());
  advance.set_emulated(report.emulated());
  advance.set_total_steps(report.total_steps());
  return advance;
}

v1::Outcome OutcomeOf(const v1::AttemptReport& report) {
  v1::Outcome outcome = report.outcome();
  if (outcome.kind() == v1::Outcome::KIND_UNSPECIFIED) {
    outcome.set_kind(v1::Outcome::FAILED);
    outcome.set_reason(v1::INTERNAL);
    outcome.set_message("the worker told no outcome");
  }
  BoundOutcome(&outcome);
  return outcome;
}

v1::AttemptDirective ToDirective(const JobRecord& record) {
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
  directive.set_precision(attempt.precision());
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

// What of the report is on disk, or will never be needed, and so need not be sent again.
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

absl::Status Coordinator::CheckAgent(const v1::WorkerReport& report, const Session& session) const {
  const WorkerRecordPtr record = options_.ledger->Read(
      [&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS { return state.FindWorker(report.worker()); });
  const bool reported = !session.incarnation.empty();
  if (record == nullptr && !reported) {
    return absl::OkStatus();
  }
  const v1::AgentIdentity& holder = reported ? session.agent : record->agent();
  // Before its registration is on disk a worker has no attempts, and nobody can lose it: its silence tells.
  const bool is_over = record == nullptr ? options_.clock->SinceBoot() - session.report_since_boot >
                                               options_.lease + options_.lease_margin
                                         : record->lost() && !session.losing;
  // A name that was registered without an identity is anyone's.
  if (is_over || holder.id().empty() || holder.id() == report.agent().id()) {
    return absl::OkStatus();
  }
  return ErrorWithMetadata(
      StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE",
      absl::StrCat("another agent uses the name ", report.worker(), ": ", holder.place(), ", and this one is ",
                   report.agent().place(), "; choose another --name, or stop that one and wait until it is lost"),
      {{"worker", report.worker()}, {"holder", holder.place()}, {"refused", report.agent().place()}});
}

absl::Status Coordinator::TakeSession(const v1::WorkerReport& report, bool* is_new) {
  Session& session = sessions_[report.worker()];
  AMPD_RETURN_IF_ERROR(CheckAgent(report, session));
  auto& retired = session.retired_incarnations;
  if (session.agent.id() != report.agent().id()) {
    retired.clear();  // they tell the connections of one agent apart; the other may come back once this one is lost
    session.incarnation.clear();
  }
  session.agent = report.agent();
  if (std::find(retired.begin(), retired.end(), report.incarnation()) != retired.end()) {
    return Error(StatusCode::kAborted, "REPLACED",
                 absl::StrCat("another agent has come since as worker ", report.worker()));
  }
  if (session.incarnation != report.incarnation()) {
    if (!session.incarnation.empty()) {
      retired.push_back(std::move(session.incarnation));
    }
    if (retired.size() > kRetiredIncarnationsKept) {
      retired.pop_front();
    }
    session.incarnation = report.incarnation();
    session.report.Clear();
  }
  *is_new = report.sequence() > session.report.sequence();
  if (*is_new) {
    session.report = report;
    session.report_time = options_.clock->Now();
    session.report_since_boot = options_.clock->SinceBoot();
  }
  return absl::OkStatus();
}

bool Coordinator::MayRenew(const std::string& worker, const Session& session, const ClusterState& state) const {
  // A worker that is only now being registered holds nothing that could be assigned elsewhere.
  const WorkerRecordPtr record = state.FindWorker(worker);
  return (record == nullptr || !record->lost()) && !session.losing;
}

absl::StatusOr<v1::WorkerDirective> Coordinator::HandleReport(const v1::WorkerReport& report) {
  if (report.worker().empty() || report.worker().size() > 253 || report.incarnation().empty()) {
    return InvalidFields({{"worker", "a report names its worker, in at most 253 bytes, and its incarnation"}});
  }
  if (report.agent().id().size() > kMaxAgentIdBytes || report.agent().place().size() > kMaxAgentPlaceBytes) {
    return InvalidFields(
        {{"agent", absl::StrCat("its id has at most ", kMaxAgentIdBytes, " bytes, its place ", kMaxAgentPlaceBytes)}});
  }
  AMPD_RETURN_IF_ERROR(CheckReportSizes(report));
  Updates updates;
  v1::WorkerDirective directive;
  {
    absl::MutexLock lock(&mutex_);
    bool is_new = false;
    AMPD_RETURN_IF_ERROR(TakeSession(report, &is_new));
    Session& session = sessions_[report.worker()];
    bool renew = false;
    options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      renew = is_new && MayRenew(report.worker(), session, state);
      if (is_new) {
        NoteRegistration(report, state, &updates);
        for (const v1::AttemptReport& attempt : report.attempts()) {
          NoteAttempt(report.worker(), attempt, state, &updates);
        }
        NoteGone(session, state, &updates);
        NoteDeletions(session, state, &updates);
      }
    });
    if (renew) {
      liveness_.Renew(report.worker(), options_.clock->SinceBoot());
    }
    directive = BuildDirective(report.worker(), session, renew);
  }
  CommitQuietly(std::move(updates));
  return directive;
}

absl::StatusOr<v1::WorkerDirective> Coordinator::CurrentDirective(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  const auto session = sessions_.find(worker);
  if (session == sessions_.end() || session->second.incarnation.empty()) {
    return Error(StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("worker ", worker, " has not reported"));
  }
  return BuildDirective(worker, session->second, /*renew=*/false);
}

void Coordinator::NoteRegistration(const v1::WorkerReport& report, const ClusterState& state, Updates* updates) const {
  internal::RegisterWorker registration = ToRegistration(report);
  const WorkerRecordPtr record = state.FindWorker(report.worker());
  if (record == nullptr || record->lost() || !IsRegistered(registration, *record)) {
    *updates->emplace_back(NewUpdate()).mutable_register_worker() = std::move(registration);
  }
}

void Coordinator::NoteAttempt(const std::string& worker, const v1::AttemptReport& reported, const ClusterState& state,
                              Updates* updates) const {
  const JobRecordPtr record = state.FindJob(reported.key().job_id());
  if (record == nullptr) {
    return;
  }
  const auto attempt = FindAttemptByToken(*record, reported.key());
  if (!attempt.ok() || (*attempt)->state() == Attempt::ENDED || (*attempt)->worker() != worker) {
    return;
  }
  // The order counts: a checkpoint is recorded, and the last precision taken, before the outcome that follows them.
  for (const v1::Checkpoint& checkpoint : reported.checkpoints()) {
    // Any other path would have workers delete there what is not its own.
    const bool is_in_place = checkpoint.path() == PathOf(reported.key().job_id(), checkpoint);
    if (is_in_place && !IsRecorded(*record, checkpoint)) {
      internal::RecordCheckpoint& change = *updates->emplace_back(NewUpdate()).mutable_record_checkpoint();
      *change.mutable_key() = reported.key();
      *change.mutable_checkpoint() = checkpoint;
    }
  }
  internal::AdvanceAttempt told = ToAdvance(reported);
  if (IsNews(told, **attempt)) {
    *updates->emplace_back(NewUpdate()).mutable_advance_attempt() = std::move(told);
  }
  if (reported.state() == Attempt::ENDED) {
    internal::EndAttempt& change = *updates->emplace_back(NewUpdate()).mutable_end_attempt();
    *change.mutable_key() = reported.key();
    *change.mutable_outcome() = OutcomeOf(reported);
  }
}

void Coordinator::NoteGone(const Session& session, const ClusterState& state, Updates* updates) const {
  const v1::WorkerReport& report = session.report;
  if (report.reflected().epoch() != state.epoch()) {
    return;
  }
  for (const JobRecordPtr& record : state.JobsOn(report.worker())) {
    const v1::AttemptKey key = NewestKey(*record);
    const bool has_it =
        std::any_of(report.attempts().begin(), report.attempts().end(), [&](const v1::AttemptReport& reported) {
          return reported.key().job_id() == key.job_id() && reported.key().token() == key.token();
        });
    const auto told = session.first_told.find(NameOf(key));
    if (has_it || told == session.first_told.end() || report.reflected().number() < told->second) {
      continue;
    }
    internal::EndAttempt& change = *updates->emplace_back(NewUpdate()).mutable_end_attempt();
    *change.mutable_key() = key;
    change.mutable_outcome()->set_kind(v1::Outcome::GONE);
    change.mutable_outcome()->set_reason(v1::WORKER_LOST);
    change.mutable_outcome()->set_message("the worker has no trace of it");
  }
}

void Coordinator::NoteDeletions(const Session& session, const ClusterState& state, Updates* updates) const {
  const WorkerRecordPtr record = state.FindWorker(session.report.worker());
  if (record == nullptr || session.report.reflected().epoch() != state.epoch()) {
    return;
  }
  internal::CheckpointsDeleted deleted;
  for (const v1::CheckpointKey& key : record->delete_checkpoints()) {
    const auto told = session.first_told_deletion.find(key.path());
    if (told != session.first_told_deletion.end() && session.report.reflected().number() >= told->second) {
      *deleted.add_keys() = key;
    }
  }
  if (deleted.keys_size() > 0) {
    deleted.set_worker(session.report.worker());
    *updates->emplace_back(NewUpdate()).mutable_checkpoints_deleted() = std::move(deleted);
  }
}

v1::WorkerDirective Coordinator::BuildDirective(const std::string& worker, Session& session, bool renew) {
  v1::WorkerDirective directive;
  // Ordered over all lives of the server, without a write for each.
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
    for (const JobRecordPtr& record : state.JobsOn(worker)) {
      *directive.add_attempts() = ToDirective(*record);
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

void Coordinator::CommitDrained(const std::string& worker, bool drained, WorkerDone done) {
  internal::Update update = NewUpdate();
  update.mutable_set_drained()->set_worker(worker);
  update.mutable_set_drained()->set_drained(drained);
  options_.ledger->Commit(std::move(update),
                          [this, worker, done = std::move(done)](const absl::StatusOr<Applied>& applied) {
                            if (!applied.ok()) {
                              return done(applied.status());
                            }
                            v1::Worker view;
                            {
                              absl::MutexLock lock(&mutex_);
                              options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                                view = ViewOf(state, *state.FindWorker(worker));
                              });
                            }
                            done(std::move(view));
                          });
}

void Coordinator::DrainWorker(const v1::DrainWorkerRequest& request, WorkerDone done) {
  CommitDrained(request.name(), true, std::move(done));
}

void Coordinator::UndrainWorker(const v1::UndrainWorkerRequest& request, WorkerDone done) {
  CommitDrained(request.name(), false, std::move(done));
}

}  // namespace ampd::server
