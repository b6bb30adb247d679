// Applies updates that come from workers or concern them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "server/state/pinned_loss_scale.h"
#include "server/state/transition.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using google::protobuf::util::MessageDifferencer;
using google::protobuf::util::TimeUtil;
using internal::JobRecord;
using v1::Attempt;
using v1::Job;

// Checks only that the path does not lead out of the checkpoint root, because old journals may have any relative path.
// The coordinator has already checked that the path belongs to the attempt.
absl::Status CheckCheckpoint(const v1::Checkpoint& checkpoint, const v1::AttemptKey& key) {
  const std::vector<std::string> parts = absl::StrSplit(checkpoint.path(), '/');
  const bool climbs = std::find(parts.begin(), parts.end(), "..") != parts.end();
  if (checkpoint.path().empty() || absl::StartsWith(checkpoint.path(), "/") || climbs) {
    return Error(StatusCode::kInvalidArgument, "INVALID_FIELDS", "checkpoint.path: must be below the checkpoint root");
  }
  if (checkpoint.attempt() != key.attempt() || checkpoint.step() < 0) {
    return Error(StatusCode::kInvalidArgument, "INVALID_FIELDS",
                 absl::StrCat("checkpoint: attempt ", checkpoint.attempt(), " step ", checkpoint.step(),
                              " can't be of attempt ", key.attempt()));
  }
  return absl::OkStatus();
}

// Returns the index of the checkpoint with the lowest evaluation loss, or -1 if none was evaluated. Of several with the
// same loss, returns the oldest.
int IndexOfBest(const google::protobuf::RepeatedPtrField<v1::Checkpoint>& checkpoints) {
  int best = -1;
  for (int i = 0; i < checkpoints.size(); ++i) {
    const bool evaluated = checkpoints[i].has_eval_loss() && std::isfinite(checkpoints[i].eval_loss());
    if (evaluated && (best < 0 || checkpoints[i].eval_loss() < checkpoints[best].eval_loss())) {
      best = i;
    }
  }
  return best;
}

// Stores the loss of the attempt's last evaluation in the checkpoint of the same step. That checkpoint was recorded
// before the evaluation; the loss arrives with the outcome.
void TakeFinalEvaluation(const v1::Outcome& outcome, const Attempt& attempt, Job* job) {
  if (outcome.kind() != v1::Outcome::FINISHED || !outcome.final_metrics().has_eval_loss()) {
    return;
  }
  for (v1::Checkpoint& checkpoint : *job->mutable_checkpoints()) {
    if (checkpoint.attempt() == attempt.number() && checkpoint.step() == outcome.last_step() &&
        !checkpoint.has_eval_loss()) {
      checkpoint.set_eval_loss(outcome.final_metrics().eval_loss());
    }
  }
}

// Returns the step of the last checkpoint that the attempt recorded; -1 if it recorded none.
int64_t LastRecordedStep(const JobRecord& record, int attempt) {
  return record.last_checkpoint_attempt() == attempt ? record.last_checkpoint_step() : -1;
}

v1::Outcome LostOutcome() {
  v1::Outcome outcome;
  outcome.set_kind(v1::Outcome::GONE);
  outcome.set_reason(v1::Reason::WORKER_LOST);
  outcome.set_message("the worker's lease ran out");
  return outcome;
}

// Returns the loss-scale rule that the record keeps for the assigned precision. If there is none, first records the
// rule of the assignment.
const v1::LossScale& PinLossScale(const internal::AssignAttempt& assign, JobRecord* record) {
  if (const v1::LossScale* pinned = FindPinnedLossScale(*record, assign.precision()); pinned != nullptr) {
    return *pinned;
  }
  internal::PinnedLossScale& pinned = *record->add_loss_scales();
  pinned.set_precision(assign.precision());
  *pinned.mutable_loss_scale() = assign.loss_scale();
  return pinned.loss_scale();
}

absl::Status MoveAttempt(Attempt::State to, JobEdit& edit) {
  Attempt& attempt = edit.newest_attempt();
  const Attempt::State from = attempt.state();
  attempt.set_state(to);
  if (HasBegun(to) && !HasBegun(from)) {
    edit.SetStart(edit.time_unix_micros());
    if (edit.job().state() == Job::STARTING) {
      AMPD_RETURN_IF_ERROR(edit.Move(Job::RUNNING, v1::Reason::REASON_UNSPECIFIED, ""));
    }
  }
  if (to == Attempt::SUSPENDED) {
    edit.AddEvent(v1::Event::SUSPENDED);
  } else if (from == Attempt::SUSPENDED) {
    edit.AddEvent(v1::Event::RESUMED_IN_PLACE);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Transition::Do(const internal::RegisterWorker& registration) {
  if (registration.worker().name().empty()) {
    return Error(StatusCode::kInvalidArgument, "INVALID_FIELDS", "worker.name: must not be empty");
  }
  const WorkerRecordPtr before = state_.FindWorker(registration.worker().name());
  internal::WorkerRecord record;
  if (before != nullptr) {
    record = *before;
  }
  const bool drained = record.worker().drained();
  *record.mutable_worker() = registration.worker();
  record.mutable_worker()->set_drained(drained);
  *record.mutable_data_roots() = registration.data_roots();
  *record.mutable_data_root_tenants() = registration.data_root_tenants();
  *record.mutable_agent() = registration.agent();
  record.set_lost(false);
  record.clear_lost_unix_micros();
  if (before == nullptr || !MessageDifferencer::Equals(*before, record)) {
    EditWorker(record);
  }
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::SetDrained& set) {
  AMPD_ASSIGN_OR_RETURN(const WorkerRecordPtr worker, RequireWorker(set.worker()));
  if (worker->worker().drained() == set.drained()) {
    return absl::OkStatus();
  }
  EditWorker(*worker).mutable_worker()->set_drained(set.drained());
  if (!set.drained()) {
    return absl::OkStatus();
  }
  for (const JobRecordPtr& record : state_.JobsOn(set.worker())) {
    const Job::State state = record->job().state();
    if (state == Job::STARTING || state == Job::RUNNING) {
      JobEdit edit = Edit(*record);
      AMPD_RETURN_IF_ERROR(
          edit.Move(Job::PAUSING, v1::Reason::WORKER_DRAINED, absl::StrCat("worker ", set.worker(), " is drained")));
      edit.Finish(&applied_);
    }
  }
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::LoseWorker& lose) {
  AMPD_ASSIGN_OR_RETURN(const WorkerRecordPtr worker, RequireWorker(lose.worker()));
  if (worker->lost()) {
    return absl::OkStatus();
  }
  internal::WorkerRecord& lost = EditWorker(*worker);
  lost.set_lost(true);
  lost.set_lost_unix_micros(update_.time_unix_micros());
  HandOverDeletions(lost);
  for (const JobRecordPtr& record : state_.JobsOn(lose.worker())) {
    JobEdit edit = Edit(*record);
    AMPD_RETURN_IF_ERROR(EndNewestAttempt(LostOutcome(), edit));
    edit.Finish(&applied_);
  }
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::RemoveWorker& remove) {
  AMPD_ASSIGN_OR_RETURN(const WorkerRecordPtr worker, RequireWorker(remove.worker()));
  if (!worker->lost()) {
    return ErrorWithMetadata(
        StatusCode::kFailedPrecondition, "WORKER_NOT_LOST",
        absl::StrCat("worker ", remove.worker(),
                     " is not lost, and only a lost worker can be removed; end its ampd-worker and wait until the "
                     "worker is LOST, or drain it so that it gets no more jobs"),
        {{"worker", remove.worker()}});
  }
  applied_.removed_workers.push_back(remove.worker());
  applied_.changed = true;
  return absl::OkStatus();
}

// Checks the assignment against the current records. The scheduler decided on published records, which may be outdated
// by now.
absl::Status Transition::CheckDecision(const internal::AssignAttempt& assign, const JobRecord& record,
                                       const internal::WorkerRecord& worker) const {
  if (assign.job_version() == 0) {
    return absl::OkStatus();
  }
  if (assign.job_version() != record.version()) {
    return Error(StatusCode::kAborted, "STALE_DECISION",
                 absl::StrCat("job ", assign.job(), " has changed since it was placed"));
  }
  if (assign.has_start_from() && !Reaches(worker, assign.start_from())) {
    return Error(StatusCode::kAborted, "STALE_DECISION",
                 absl::StrCat("worker ", assign.worker(), " does not reach checkpoint ", assign.start_from().path()));
  }
  return absl::OkStatus();
}

absl::Status Transition::CheckAssignment(const internal::AssignAttempt& assign, const JobRecord& record) const {
  if (record.job().state() != Job::QUEUED || assign.attempt() != NextAttemptNumber(record)) {
    return Error(StatusCode::kFailedPrecondition, "WRONG_STATE",
                 absl::StrCat("job ", assign.job(), " does not wait for attempt ", assign.attempt()));
  }
  AMPD_ASSIGN_OR_RETURN(const WorkerRecordPtr worker, RequireWorker(assign.worker()));
  if (worker->lost() || worker->worker().drained()) {
    return Error(StatusCode::kFailedPrecondition, "WORKER_UNAVAILABLE",
                 absl::StrCat("worker ", assign.worker(), " is lost or drained"));
  }
  for (const std::string& id : assign.devices()) {
    const auto& devices = worker->worker().devices();
    const bool known =
        std::any_of(devices.begin(), devices.end(), [&](const v1::Device& device) { return device.id() == id; });
    if (!known || state_.DeviceIsHeld(assign.worker(), id)) {
      return Error(StatusCode::kFailedPrecondition, "DEVICE_BUSY",
                   absl::StrCat("device ", id, " of worker ", assign.worker(), " is not free"));
    }
  }
  return CheckDecision(assign, record, *worker);
}

absl::Status Transition::Do(const internal::AssignAttempt& assign) {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireJob(assign.job()));
  AMPD_RETURN_IF_ERROR(CheckAssignment(assign, *record));
  DeleteFolderOfForgotten(*record);
  JobEdit edit = Edit(*record);
  Attempt& attempt = edit.AddAttempt(assign.token());
  attempt.set_worker(assign.worker());
  *attempt.mutable_devices() = assign.devices();
  attempt.set_precision(assign.precision());
  attempt.set_precision_reason(assign.precision_reason());
  attempt.set_emulated(assign.emulated());
  if (assign.has_loss_scale()) {
    *attempt.mutable_loss_scale() = PinLossScale(assign, &edit.record());
  }
  edit.record().clear_gradient_request_number();  // This request and the next one were for the previous attempt.
  edit.record().clear_profile_request();
  edit.record().clear_start_from();
  if (assign.has_start_from()) {
    *edit.record().mutable_start_from() = assign.start_from();
    attempt.set_from_step(assign.start_from().step());
  }
  v1::Event& event = edit.AddEvent(v1::Event::ATTEMPT_ASSIGNED);
  event.set_step(attempt.from_step());
  (*event.mutable_attributes())["worker"] = assign.worker();
  (*event.mutable_attributes())["precision"] = assign.precision();
  AMPD_RETURN_IF_ERROR(edit.Move(Job::STARTING, v1::Reason::REASON_UNSPECIFIED, ""));
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::AdvanceAttempt& advance) {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireOwner(advance.key()));
  if (!HasChanges(advance, *record->job().attempts().rbegin())) {
    return absl::OkStatus();
  }
  JobEdit edit = Edit(*record);
  Attempt& attempt = edit.newest_attempt();
  if (!advance.precision().empty()) {
    attempt.set_precision(advance.precision());
    attempt.set_emulated(advance.emulated());
  }
  if (advance.total_steps() > 0) {
    attempt.set_total_steps(advance.total_steps());
  }
  if (IsProgress(attempt.state(), advance.state())) {
    AMPD_RETURN_IF_ERROR(MoveAttempt(advance.state(), edit));
  }
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::RecordCheckpoint& record_checkpoint) {
  const v1::AttemptKey& key = record_checkpoint.key();
  const v1::Checkpoint& checkpoint = record_checkpoint.checkpoint();
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireJob(key.job_id()));
  AMPD_ASSIGN_OR_RETURN(const Attempt* attempt, FindAttemptByToken(*record, key));
  AMPD_RETURN_IF_ERROR(CheckCheckpoint(checkpoint, key));
  if (checkpoint.step() <= LastRecordedStep(*record, attempt->number())) {
    return absl::OkStatus();  // The checkpoint was recorded earlier, and may have been deleted since.
  }
  AMPD_RETURN_IF_ERROR(RequireOwner(key).status());
  JobEdit edit = Edit(*record);
  v1::Checkpoint& added = *edit.job().add_checkpoints();
  added = checkpoint;
  added.set_worker(attempt->worker());
  added.set_agent(checkpoint.local() ? AgentOf(attempt->worker()) : "");
  *added.mutable_time() = TimeUtil::MicrosecondsToTimestamp(update_.time_unix_micros());
  edit.record().set_attempts_without_checkpoint(0);
  edit.record().set_last_checkpoint_attempt(attempt->number());
  edit.record().set_last_checkpoint_step(checkpoint.step());
  v1::Event& event = edit.AddEvent(v1::Event::CHECKPOINT_SAVED);
  event.set_step(checkpoint.step());
  DropOldCheckpoints(*record, edit);
  edit.Finish(&applied_);
  return absl::OkStatus();
}

void Transition::DropOldCheckpoints(const JobRecord& record, JobEdit& edit) {
  auto& kept = *edit.job().mutable_checkpoints();
  const v1::CheckpointSpec& spec = record.job().spec().checkpoint();
  const int best = spec.keep_best() ? IndexOfBest(kept) : -1;
  for (int i = kept.size() - std::max(1, spec.keep()) - 1; i >= 0; --i) {
    if (i != best) {
      DeleteFiles(record, kept[i]);
      kept.DeleteSubrange(i, 1);
    }
  }
}

absl::Status Transition::Do(const internal::EndAttempt& end) {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireJob(end.key().job_id()));
  AMPD_ASSIGN_OR_RETURN(const Attempt* attempt, FindAttemptByToken(*record, end.key()));
  if (EndedByItself(*attempt)) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(RequireOwner(end.key()).status());
  JobEdit edit = Edit(*record);
  TakeFinalEvaluation(end.outcome(), *attempt, &edit.job());
  DropOldCheckpoints(*record, edit);
  AMPD_RETURN_IF_ERROR(EndNewestAttempt(end.outcome(), edit));
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::StartOver& start_over) {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireJob(start_over.job()));
  if (record->job().state() != Job::QUEUED) {
    return absl::OkStatus();
  }
  JobEdit edit = Edit(*record);
  for (const v1::Checkpoint& checkpoint : record->job().checkpoints()) {
    DeleteFiles(*record, checkpoint);
  }
  edit.job().clear_checkpoints();
  if (!record->job().spec().model().has_initial_checkpoint()) {
    edit.record().clear_clone_start();  // A job without model.initial_checkpoint may start from scratch instead.
    edit.record().clear_older_starts();
  }
  edit.AddEvent(v1::Event::STARTED_OVER).set_message(start_over.message());
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::DropCheckpoint& drop) {
  AMPD_ASSIGN_OR_RETURN(const NamedJob named, RequireNamedJob(drop.job(), drop.archived()));
  const JobRecordPtr& record = named.record;
  JobEdit edit = Edit(*record);
  auto& kept = *edit.job().mutable_checkpoints();
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const v1::Checkpoint& checkpoint) {
    return checkpoint.attempt() == drop.attempt() && checkpoint.step() == drop.step();
  });
  if (found == kept.end()) {
    return Error(
        StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
        absl::StrCat("job ", drop.job(), " has no checkpoint of attempt ", drop.attempt(), " at step ", drop.step()));
  }
  const bool is_last = found + 1 == kept.end();
  if ((is_last && !IsTerminal(record->job().state())) || StartsAnother(found->path())) {
    return Error(
        StatusCode::kFailedPrecondition, "CHECKPOINT_IN_USE",
        absl::StrCat("job ", drop.job(), ", or another that begins with it, would go on from this checkpoint"));
  }
  DeleteFiles(*record, *found);
  kept.erase(found);
  FinishHotOrArchived(edit, named.is_hot);
  return absl::OkStatus();
}

std::string Transition::AgentOf(const std::string& worker) const {
  const WorkerRecordPtr record = state_.FindWorker(worker);
  return record == nullptr ? "" : AgentDigest(record->agent());
}

}  // namespace ampd::server
