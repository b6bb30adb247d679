#include "server/state/transition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "server/state/live_loss_scale.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using internal::JobRecord;
using v1::Job;

absl::Status CheckEtag(const std::string& etag, const Job& job) {
  if (etag.empty() || etag == job.etag()) {
    return absl::OkStatus();
  }
  return Error(StatusCode::kAborted, "STALE_ETAG",
               absl::StrCat("job ", job.id(), " has changed: its etag is ", job.etag(), ", not ", etag));
}

}  // namespace

absl::StatusOr<Applied> Transition::Run() {
  AMPD_RETURN_IF_ERROR(Dispatch());
  applied_.time_unix_micros = update_.time_unix_micros();
  for (auto& [name, record] : workers_) {
    applied_.changed = true;
    applied_.workers.push_back(std::move(record));
  }
  return std::move(applied_);
}

absl::Status Transition::Dispatch() {
  switch (update_.kind_case()) {
    case internal::Update::kStartLife:
      applied_.life = state_.life() + 1;
      applied_.server_version = update_.start_life().server_version();
      applied_.changed = true;
      return absl::OkStatus();
    case internal::Update::kCreateJob:
      return Do(update_.create_job());
    case internal::Update::kSetDesired:
      return Do(update_.set_desired());
    case internal::Update::kChangeJob:
      return Do(update_.change_job());
    case internal::Update::kDeleteJob:
      return Do(update_.delete_job());
    case internal::Update::kRegisterWorker:
      return Do(update_.register_worker());
    case internal::Update::kSetDrained:
      return Do(update_.set_drained());
    case internal::Update::kLoseWorker:
      return Do(update_.lose_worker());
    case internal::Update::kRemoveWorker:
      return Do(update_.remove_worker());
    case internal::Update::kAssignAttempt:
      return Do(update_.assign_attempt());
    case internal::Update::kAdvanceAttempt:
      return Do(update_.advance_attempt());
    case internal::Update::kRecordCheckpoint:
      return Do(update_.record_checkpoint());
    case internal::Update::kEndAttempt:
      return Do(update_.end_attempt());
    case internal::Update::kExpireDeadline:
      return Do(update_.expire_deadline());
    case internal::Update::kStartOver:
      return Do(update_.start_over());
    case internal::Update::kDropCheckpoint:
      return Do(update_.drop_checkpoint());
    case internal::Update::kCheckpointsDeleted:
      return Do(update_.checkpoints_deleted());
    case internal::Update::kArchiveJobs:
      return Do(update_.archive_jobs());
    case internal::Update::kTrimJob:
      return Do(update_.trim_job());
    case internal::Update::kRestoreServer:
      return Do(update_.restore_server());
    case internal::Update::KIND_NOT_SET:
      break;
  }
  return Error(StatusCode::kUnimplemented, "UNKNOWN_UPDATE", "an update of a kind that this server does not know");
}

absl::StatusOr<JobRecordPtr> Transition::RequireJob(const std::string& id) const {
  JobRecordPtr record = state_.FindJob(id);
  if (record == nullptr) {
    return Error(StatusCode::kNotFound, "JOB_NOT_FOUND", absl::StrCat("there is no job ", id));
  }
  return record;
}

absl::StatusOr<Transition::NamedJob> Transition::RequireNamedJob(const std::string& id, const JobRecord& earlier) {
  if (JobRecordPtr hot = state_.FindJob(id); hot != nullptr) {
    return NamedJob{std::move(hot)};
  }
  for (const JobRecord* archived : {&update_.archived_job(), &earlier}) {
    if (!id.empty() && archived->job().id() == id) {
      applied_.archived_job = std::make_shared<JobRecord>(*archived);
      return NamedJob{applied_.archived_job, /*is_hot=*/false};
    }
  }
  return RequireJob(id).status();
}

absl::StatusOr<WorkerRecordPtr> Transition::RequireWorker(const std::string& name) const {
  WorkerRecordPtr record = state_.FindWorker(name);
  if (record == nullptr) {
    return Error(StatusCode::kNotFound, "WORKER_NOT_FOUND", absl::StrCat("there is no worker ", name));
  }
  return record;
}

absl::StatusOr<JobRecordPtr> Transition::RequireOwner(const v1::AttemptKey& key) const {
  AMPD_ASSIGN_OR_RETURN(JobRecordPtr record, RequireJob(key.job_id()));
  AMPD_ASSIGN_OR_RETURN(const v1::Attempt* attempt, FindAttemptByToken(*record, key));
  if (attempt->number() != record->job().num_attempts() || attempt->state() == v1::Attempt::ENDED) {
    return Fenced(key);
  }
  return record;
}

internal::WorkerRecord& Transition::EditWorker(const internal::WorkerRecord& record) {
  std::shared_ptr<internal::WorkerRecord>& edit = workers_[record.worker().name()];
  if (edit == nullptr) {
    edit = std::make_shared<internal::WorkerRecord>(record);
  }
  return *edit;
}

absl::Status Transition::CheckStart(const internal::CreateJob& create) const {
  if (!create.start_is_hot()) {
    return absl::OkStatus();
  }
  const std::string& path = create.clone_start().path();
  const std::string keeper = JobOfPath(path);
  const JobRecordPtr record = state_.FindJob(keeper);
  if (record == nullptr) {
    // The job that keeps the checkpoint has left the memory since the request was checked: it was archived or deleted.
    // The client should repeat the call, which checks the request again.
    return WithRetryDelay(Error(StatusCode::kUnavailable, "CHECKPOINT_MOVED",
                                absl::StrCat("job ", keeper, ", whose checkpoint it is, is being put away")),
                          absl::Seconds(1));
  }
  return Keeps(record->job(), path) ? absl::OkStatus() : NoLongerKept(keeper);
}

absl::Status Transition::CheckLimits(const internal::CreateJob& create, const std::string& tenant) const {
  const ClusterState::TenantUse use = state_.UseOf(tenant);
  const auto refuse = [](const std::string& why) {
    return WithRetryDelay(Error(StatusCode::kResourceExhausted, "TENANT_LIMIT", why), absl::Seconds(30));
  };
  if (create.max_jobs() > 0 && use.num_jobs >= create.max_jobs()) {
    return refuse(
        absl::StrCat("the tenant ", tenant, " has ", use.num_jobs, " unfinished jobs; at most ", create.max_jobs()));
  }
  const auto spec_bytes = static_cast<int64_t>(create.spec().ByteSizeLong());
  if (create.max_spec_bytes() > 0 && use.spec_bytes + spec_bytes > create.max_spec_bytes()) {
    return refuse(absl::StrCat("the specs of the unfinished jobs of the tenant ", tenant, " have ", use.spec_bytes,
                               " bytes, and this one ", spec_bytes, "; together at most ", create.max_spec_bytes()));
  }
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::CreateJob& create) {
  const std::string tenant = TenantOrDefault(create.tenant());
  if (const internal::AcceptedRequest* const earlier = state_.FindRequest(tenant, create.request_id());
      earlier != nullptr) {
    if (earlier->request_digest() != create.request_digest()) {
      return Error(
          StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
          absl::StrCat("request_id ", create.request_id(), " was used for another request, job ", earlier->job()));
    }
    applied_.job = earlier->job();
    return RequireNamedJob(applied_.job).status();
  }
  if (create.only_repeat()) {
    return WithRetryDelay(
        Error(StatusCode::kUnavailable, "REQUEST_FORGOTTEN",
              absl::StrCat("the job of request_id ", create.request_id(), " was deleted just now; ask again")),
        absl::Seconds(1));
  }
  if (state_.FindJob(create.id()) != nullptr) {
    return Error(StatusCode::kAlreadyExists, "JOB_EXISTS", absl::StrCat("there is a job ", create.id()));
  }
  AMPD_RETURN_IF_ERROR(CheckStart(create));
  AMPD_RETURN_IF_ERROR(CheckLimits(create, tenant));
  JobEdit edit = Edit(JobRecord());
  Job& job = edit.job();
  job.set_id(create.id());
  *job.mutable_spec() = create.spec();
  job.set_state(Job::QUEUED);
  job.set_desired(Job::RUN);
  job.mutable_create_time()->set_seconds(update_.time_unix_micros() / 1'000'000);
  job.mutable_create_time()->set_nanos(static_cast<int32_t>(update_.time_unix_micros() % 1'000'000 * 1000));
  // The number is no plain count, because every caller sees the numbers of its own jobs, and from a count it could tell
  // how many jobs others submit.
  job.set_submit_order(std::max(state_.next_submit_order(), update_.time_unix_micros()));
  job.set_cloned_from(create.cloned_from());
  job.set_owner(create.owner());
  job.set_tenant(tenant);
  edit.record().set_request_id(create.request_id());
  edit.record().set_request_digest(create.request_digest());
  job.set_traceparent(create.traceparent());
  edit.record().set_parent_span_id(create.parent_span_id());
  if (create.has_clone_start()) {
    *edit.record().mutable_clone_start() = create.clone_start();
    *edit.record().mutable_older_starts() = create.older_starts();
    *edit.record().mutable_loss_scales() = create.loss_scales();
  }
  v1::Event& event = edit.AddEvent(v1::Event::CREATED);
  event.set_to_state(Job::QUEUED);
  edit.Finish(&applied_);
  applied_.job = create.id();
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::SetDesired& set) {
  AMPD_ASSIGN_OR_RETURN(const NamedJob named, RequireNamedJob(set.job()));
  AMPD_RETURN_IF_ERROR(CheckEtag(set.etag(), named.record->job()));
  JobEdit edit = Edit(*named.record);
  switch (set.desired()) {
    case Job::CANCEL:
      return Cancel(edit);
    case Job::PAUSE:
      return Pause(edit);
    case Job::RUN:
      return Resume(edit);
    default:
      return Error(StatusCode::kInvalidArgument, "INVALID_FIELDS", "desired: a job can be run, paused or cancelled");
  }
}

absl::Status Transition::Cancel(JobEdit& edit) {
  Job& job = edit.job();
  if (IsTerminal(job.state()) || job.state() == Job::CANCELLING) {
    return absl::OkStatus();
  }
  job.set_desired(Job::CANCEL);
  const Job::State to = IsActive(job.state()) ? Job::CANCELLING : Job::CANCELLED;
  AMPD_RETURN_IF_ERROR(edit.Move(to, v1::Reason::USER_CANCELLED, ""));
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Pause(JobEdit& edit) {
  Job& job = edit.job();
  if (IsTerminal(job.state()) || job.state() == Job::CANCELLING) {
    return WrongState(job, "paused");
  }
  if (job.desired() == Job::PAUSE) {
    return absl::OkStatus();
  }
  job.set_desired(Job::PAUSE);
  if (job.state() == Job::PAUSING) {  // The trainer already exits for another reason. Then the job is paused.
    job.set_reason(v1::Reason::USER_PAUSED);
  } else {
    AMPD_RETURN_IF_ERROR(edit.Move(IsActive(job.state()) ? Job::PAUSING : Job::PAUSED, v1::Reason::USER_PAUSED, ""));
  }
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Resume(JobEdit& edit) {
  Job& job = edit.job();
  if (IsTerminal(job.state()) || job.state() == Job::CANCELLING) {
    return WrongState(job, "resumed");
  }
  if (job.desired() == Job::RUN) {
    return absl::OkStatus();
  }
  job.set_desired(Job::RUN);
  // Only a paused job is queued at once. A trainer that is already exiting can't be told to continue; its job is queued
  // when the trainer has exited.
  if (job.state() == Job::PAUSED) {
    AMPD_RETURN_IF_ERROR(edit.Move(Job::QUEUED, v1::Reason::REASON_UNSPECIFIED, ""));
  }
  edit.Finish(&applied_);
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::ChangeJob& change) {
  AMPD_ASSIGN_OR_RETURN(const NamedJob named, RequireNamedJob(change.job()));
  const JobRecordPtr& record = named.record;
  AMPD_RETURN_IF_ERROR(CheckEtag(change.etag(), record->job()));
  if (IsTerminal(record->job().state())) {
    return WrongState(record->job(), "changed");
  }
  if (change.sample_gradients() && record->job().state() != Job::STARTING && record->job().state() != Job::RUNNING) {
    return WrongState(record->job(), "asked for its gradients");
  }
  if (change.profile_steps() > 0 && record->job().state() != Job::STARTING && record->job().state() != Job::RUNNING) {
    return WrongState(record->job(), "profiled");
  }
  JobEdit edit = Edit(*record);
  if (change.has_priority()) {
    edit.job().mutable_spec()->set_priority(change.priority());
  }
  if (change.has_loss_scale_order()) {
    ApplyLossScaleOrder(change.loss_scale_order(), &edit.record());
  }
  if (change.sample_gradients()) {
    edit.record().set_gradient_request_number(record->gradient_request_number() + 1);
  }
  if (change.profile_steps() > 0) {
    edit.record().mutable_profile_request()->set_number(record->profile_request().number() + 1);
    edit.record().mutable_profile_request()->set_num_steps(change.profile_steps());
  }
  edit.Finish(&applied_);
  return absl::OkStatus();
}

void Transition::FinishHotOrArchived(JobEdit& edit, bool is_hot) {
  edit.Finish(&applied_);
  if (!is_hot) {
    applied_.archived.swap(applied_.jobs);
  }
}

absl::Status Transition::Do(const internal::ExpireDeadline& expire) {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireJob(expire.job()));
  if (IsTerminal(record->job().state()) || record->job().state() == Job::CANCELLING) {
    return absl::OkStatus();
  }
  JobEdit edit = Edit(*record);
  edit.job().set_desired(Job::CANCEL);
  edit.record().set_deadline_expired(true);
  const Job::State to = IsActive(edit.job().state()) ? Job::CANCELLING : Job::FAILED;
  AMPD_RETURN_IF_ERROR(edit.Move(to, v1::Reason::DEADLINE, "the job's deadline passed"));
  edit.Finish(&applied_);
  return absl::OkStatus();
}

}  // namespace ampd::server
