#include "server/coordinator/report_updates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/coordinator/report_checks.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "server/state/record_bounds.h"

namespace ampd::server {
namespace {

using google::protobuf::util::MessageDifferencer;
using internal::JobRecord;
using v1::Attempt;

// Returns the part of a report that is recorded in the journal. Leaves out free memory, because that changes all the
// time.
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
  *worker.mutable_tenants() = report.tenants();
  *registration.mutable_data_roots() = report.data_roots();
  *registration.mutable_data_root_tenants() = report.data_root_tenants();
  *registration.mutable_agent() = report.agent();
  return registration;
}

bool IsRegistered(const internal::RegisterWorker& registration, const internal::WorkerRecord& record) {
  internal::RegisterWorker present;
  *present.mutable_worker() = record.worker();
  present.mutable_worker()->clear_drained();
  *present.mutable_data_roots() = record.data_roots();
  *present.mutable_data_root_tenants() = record.data_root_tenants();
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
    outcome.set_reason(v1::Reason::INTERNAL);
    outcome.set_message("the worker reported no outcome");
  }
  BoundOutcome(&outcome);
  return outcome;
}

void IngestRegistration(const v1::WorkerReport& report, const ClusterState& state, absl::Time now, Updates* updates) {
  internal::RegisterWorker registration = ToRegistration(report);
  const WorkerRecordPtr record = state.FindWorker(report.worker());
  if (record == nullptr || record->lost() || !IsRegistered(registration, *record)) {
    *updates->emplace_back(NewUpdate(now)).mutable_register_worker() = std::move(registration);
  }
}

// Records the reported checkpoints that can belong to the attempt (FindOddity). Returns which fact of the last other
// one can't be true, such as "a checkpoint's path", or an empty string.
std::string IngestCheckpoints(const v1::AttemptReport& reported, const JobRecord& record, absl::Time now,
                              Updates* updates) {
  std::string oddity;
  for (const v1::Checkpoint& checkpoint : reported.checkpoints()) {
    // Only the checkpoint's own path is accepted. With any other path, deleting the checkpoint would make workers
    // delete other files.
    const bool is_in_place = checkpoint.path() == PathOf(reported.key().job_id(), checkpoint);
    const std::string why = is_in_place ? FindOddity(record, reported.key(), checkpoint) : "a checkpoint's path";
    oddity = why.empty() ? oddity : why;
    if (why.empty() && !IsRecorded(record, checkpoint)) {
      internal::RecordCheckpoint& change = *updates->emplace_back(NewUpdate(now)).mutable_record_checkpoint();
      *change.mutable_key() = reported.key();
      *change.mutable_checkpoint() = checkpoint;
    }
  }
  return oddity;
}

// Records that the attempt ended, and returns an empty string. If the outcome can't be true, records a failure instead,
// and returns which fact of the outcome can't be true.
std::string IngestOutcome(const v1::AttemptReport& reported, const JobRecord& record, const Attempt& attempt,
                          absl::Time now, Updates* updates) {
  internal::EndAttempt& change = *updates->emplace_back(NewUpdate(now)).mutable_end_attempt();
  *change.mutable_key() = reported.key();
  *change.mutable_outcome() = OutcomeOf(reported);
  std::string why = FindOddity(record, attempt, change.outcome());
  if (!why.empty()) {
    *change.mutable_outcome() = InPlaceOf(change.outcome(), why);
  }
  return why;
}

// Records what the worker reports about one attempt. Returns a sentence about facts that can't be true, or an empty
// string.
std::string IngestAttempt(const std::string& worker, const v1::AttemptReport& reported, const ClusterState& state,
                          absl::Time now, Updates* updates) {
  const JobRecordPtr record = state.FindJob(reported.key().job_id());
  if (record == nullptr) {
    return "";
  }
  const auto attempt = FindAttemptByToken(*record, reported.key());
  if (!attempt.ok() || (*attempt)->state() == Attempt::ENDED || (*attempt)->worker() != worker) {
    return "";
  }
  // The order matters: checkpoints and the precision must be recorded before the outcome, because they came before it.
  std::string oddity = IngestCheckpoints(reported, *record, now, updates);
  const std::string odd_report = FindOddity(*record, reported);
  oddity = odd_report.empty() ? oddity : odd_report;
  internal::AdvanceAttempt advance = ToAdvance(reported);
  if (odd_report.empty() && HasChanges(advance, **attempt)) {
    *updates->emplace_back(NewUpdate(now)).mutable_advance_attempt() = std::move(advance);
  }
  if (reported.state() == Attempt::ENDED) {
    const std::string odd_outcome = IngestOutcome(reported, *record, **attempt, now, updates);
    oddity = odd_outcome.empty() ? oddity : odd_outcome;
  }
  return oddity.empty() ? "" : absl::StrCat("attempt ", NameOf(reported.key()), ": ", oddity, " can't be true");
}

// Ends the attempts that the worker has lost. An attempt is lost if the worker's report lacks it although the report
// reflects a directive that contained it.
void DetectVanished(const WorkerSession& session, const ClusterState& state, absl::Time now, Updates* updates) {
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
    const auto sent = session.first_sent.find(NameOf(key));
    if (has_it || sent == session.first_sent.end() || report.reflected().number() < sent->second) {
      continue;
    }
    internal::EndAttempt& change = *updates->emplace_back(NewUpdate(now)).mutable_end_attempt();
    *change.mutable_key() = key;
    change.mutable_outcome()->set_kind(v1::Outcome::GONE);
    change.mutable_outcome()->set_reason(v1::Reason::WORKER_LOST);
    change.mutable_outcome()->set_message("the worker has no trace of it");
  }
}

// Records which deletions the worker has done. A deletion is done if the worker's report reflects a directive that
// contained it.
void ConfirmDeletions(const WorkerSession& session, const ClusterState& state, absl::Time now, Updates* updates) {
  const WorkerRecordPtr record = state.FindWorker(session.report.worker());
  if (record == nullptr || session.report.reflected().epoch() != state.epoch()) {
    return;
  }
  internal::CheckpointsDeleted deleted;
  for (const v1::CheckpointKey& key : record->delete_checkpoints()) {
    const auto sent = session.first_sent_deletion.find(key.path());
    if (sent != session.first_sent_deletion.end() && session.report.reflected().number() >= sent->second) {
      *deleted.add_keys() = key;
    }
  }
  if (deleted.keys_size() > 0) {
    deleted.set_worker(session.report.worker());
    *updates->emplace_back(NewUpdate(now)).mutable_checkpoints_deleted() = std::move(deleted);
  }
}

}  // namespace

IngestedReport IngestReport(const WorkerSession& session, const ClusterState& state, absl::Time now) {
  IngestedReport ingested;
  const v1::WorkerReport& report = session.report;
  IngestRegistration(report, state, now, &ingested.updates);
  for (const v1::AttemptReport& attempt : report.attempts()) {
    if (std::string oddity = IngestAttempt(report.worker(), attempt, state, now, &ingested.updates); !oddity.empty()) {
      ingested.oddity = std::move(oddity);
    }
  }
  DetectVanished(session, state, now, &ingested.updates);
  ConfirmDeletions(session, state, now, &ingested.updates);
  return ingested;
}

}  // namespace ampd::server
