// Workers' reports.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/report_checks.h"
#include "server/ledger/ledger.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "server/state/record_bounds.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using google::protobuf::util::MessageDifferencer;
using internal::JobRecord;
using v1::Attempt;
using v1::Job;

constexpr size_t kRetiredIncarnationsKept = 16;

// The part of a report that is journaled. Leaves out free memory, which changes all the time.
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

absl::Status Replaced(const v1::WorkerReport& report) {
  return Error(StatusCode::kAborted, "REPLACED",
               absl::StrCat("another agent has come since as worker ", report.worker(),
                            " with the id of this one's state folder: ", report.agent().place()));
}

// Two agents of one id are either one restarted agent or agents with a copied state folder. A copy elsewhere reports
// another place. A copy at the same place looks like a restart; the agent that it displaces reports that it yields.
absl::Status CheckCopy(const v1::WorkerReport& report, const v1::AgentIdentity& holder, const WorkerSession& session) {
  const std::string& place = report.agent().place();
  if (!holder.place().empty() && !place.empty() && holder.place() != place) {
    return ErrorWithMetadata(
        StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE",
        absl::StrCat("the state folder of worker ", report.worker(), " was copied or moved: the agent at ",
                     holder.place(), " has it, and the one at ", place,
                     " is refused; give a copy another --name and an empty --state-dir, or stop the other agent and "
                     "wait until it is lost"),
        {{"worker", report.worker()}, {"holder", holder.place()}, {"refused", place}});
  }
  const bool is_other = !session.incarnation.empty() && session.incarnation != report.incarnation();
  return is_other && report.yields() ? Replaced(report) : absl::OkStatus();
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
  // A name that was registered without an agent id may be taken by any agent.
  if (IsSilent(session, record.get()) || holder.id().empty()) {
    return absl::OkStatus();
  }
  if (holder.id() == report.agent().id()) {
    return CheckCopy(report, holder, session);
  }
  return ErrorWithMetadata(
      StatusCode::kAlreadyExists, "WORKER_NAME_IN_USE",
      absl::StrCat("another agent uses the name ", report.worker(), ": ", holder.place(), ", and this one is ",
                   report.agent().place(), "; choose another --name, or stop that one and wait until it is lost"),
      {{"worker", report.worker()}, {"holder", holder.place()}, {"refused", report.agent().place()}});
}

// A worker whose registration is not on disk has no attempts and cannot be declared lost, so the age of its last report
// decides.
bool Coordinator::IsSilent(const Session& session, const internal::WorkerRecord* record) const {
  return record == nullptr
             ? options_.clock->SinceBoot() - session.report_since_boot > options_.lease + options_.lease_margin
             : record->lost() && !session.losing;
}

// The rival is shown with the worker. It is reported to operators once while it stays the same.
void Coordinator::NoteRival(const v1::WorkerReport& report, const absl::Status& refusal, Session& session) {
  session.rival_since_boot = options_.clock->SinceBoot();
  const std::string line(refusal.message());
  if (std::exchange(session.rival, line) != line && options_.on_worker_trouble) {
    options_.on_worker_trouble(report.worker(), line);
  }
}

void Coordinator::TellOddity(const std::string& worker, const std::string& oddity, Session& session) {
  if (!oddity.empty() && std::exchange(session.oddity, oddity) != oddity && options_.on_worker_trouble) {
    options_.on_worker_trouble(worker, oddity);
  }
}

absl::Status Coordinator::TakeSession(const v1::WorkerReport& report, bool* is_new) {
  Session& session = sessions_[report.worker()];
  if (const absl::Status refusal = CheckAgent(report, session); !refusal.ok()) {
    NoteRival(report, refusal, session);
    return refusal;
  }
  auto& retired = session.retired_incarnations;
  if (session.agent.id() != report.agent().id()) {
    retired.clear();  // Incarnations belong to one agent; the other may return once this one is lost.
    session.incarnation.clear();
  }
  session.agent = report.agent();
  if (std::find(retired.begin(), retired.end(), report.incarnation()) != retired.end()) {
    const absl::Status refusal = Replaced(report);
    NoteRival(report, refusal, session);
    return refusal;
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
  // A worker that is just being registered holds nothing that could be assigned elsewhere.
  const WorkerRecordPtr record = state.FindWorker(worker);
  return (record == nullptr || !record->lost()) && !session.losing;
}

absl::StatusOr<v1::WorkerDirective> Coordinator::HandleReport(const v1::WorkerReport& report) {
  AMPD_RETURN_IF_ERROR(CheckRegistration(report));
  AMPD_RETURN_IF_ERROR(CheckReportSizes(report));
  Updates updates;
  v1::WorkerDirective directive;
  {
    absl::MutexLock lock(&mutex_);
    bool is_new = false;
    AMPD_RETURN_IF_ERROR(TakeSession(report, &is_new));
    Session& session = sessions_[report.worker()];
    bool renew = false;
    std::string oddity;
    options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      renew = is_new && MayRenew(report.worker(), session, state);
      if (is_new) {
        NoteRegistration(report, state, &updates);
        for (const v1::AttemptReport& attempt : report.attempts()) {
          if (std::string found = NoteAttempt(report.worker(), attempt, state, &updates); !found.empty()) {
            oddity = std::move(found);
          }
        }
        NoteGone(session, state, &updates);
        NoteDeletions(session, state, &updates);
      }
    });
    TellOddity(report.worker(), oddity, session);
    if (renew) {
      liveness_.Renew(report.worker(), options_.clock->SinceBoot());
    }
    directive = BuildDirective(report.worker(), session, renew);
  }
  CommitQuietly(std::move(updates));
  return directive;
}

void Coordinator::NoteRegistration(const v1::WorkerReport& report, const ClusterState& state, Updates* updates) const {
  internal::RegisterWorker registration = ToRegistration(report);
  const WorkerRecordPtr record = state.FindWorker(report.worker());
  if (record == nullptr || record->lost() || !IsRegistered(registration, *record)) {
    *updates->emplace_back(NewUpdate()).mutable_register_worker() = std::move(registration);
  }
}

std::string Coordinator::NoteAttempt(const std::string& worker, const v1::AttemptReport& reported,
                                     const ClusterState& state, Updates* updates) const {
  const JobRecordPtr record = state.FindJob(reported.key().job_id());
  if (record == nullptr) {
    return "";
  }
  const auto attempt = FindAttemptByToken(*record, reported.key());
  if (!attempt.ok() || (*attempt)->state() == Attempt::ENDED || (*attempt)->worker() != worker) {
    return "";
  }
  std::string oddity;
  // The order matters: checkpoints and the last precision are recorded before the outcome that follows them.
  for (const v1::Checkpoint& checkpoint : reported.checkpoints()) {
    // With any other path, workers would delete files that are not the checkpoint's.
    const bool is_in_place = checkpoint.path() == PathOf(reported.key().job_id(), checkpoint);
    const std::string why = is_in_place ? FindOddity(*record, reported.key(), checkpoint) : "a checkpoint's path";
    oddity = why.empty() ? oddity : why;
    if (why.empty() && !IsRecorded(*record, checkpoint)) {
      internal::RecordCheckpoint& change = *updates->emplace_back(NewUpdate()).mutable_record_checkpoint();
      *change.mutable_key() = reported.key();
      *change.mutable_checkpoint() = checkpoint;
    }
  }
  const std::string odd_report = FindOddity(*record, reported);
  oddity = odd_report.empty() ? oddity : odd_report;
  internal::AdvanceAttempt told = ToAdvance(reported);
  if (odd_report.empty() && IsNews(told, **attempt)) {
    *updates->emplace_back(NewUpdate()).mutable_advance_attempt() = std::move(told);
  }
  if (reported.state() == Attempt::ENDED) {
    internal::EndAttempt& change = *updates->emplace_back(NewUpdate()).mutable_end_attempt();
    *change.mutable_key() = reported.key();
    *change.mutable_outcome() = OutcomeOf(reported);
    if (const std::string why = FindOddity(*record, **attempt, change.outcome()); !why.empty()) {
      *change.mutable_outcome() = InPlaceOf(change.outcome(), why);
      oddity = why;
    }
  }
  return oddity.empty() ? "" : absl::StrCat("attempt ", NameOf(reported.key()), ": ", oddity, " can't be true");
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

}  // namespace ampd::server
