#include "server/coordinator/job_queries.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/api/page_budget.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "server/coordinator/answer_limits.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "server/state/placement.h"

namespace ampd::server {
namespace {

using absl::StatusCode;

}  // namespace

absl::StatusOr<JobRecordPtr> ParseJobRecord(const std::string& bytes) {
  auto record = std::make_shared<internal::JobRecord>();
  if (!record->ParseFromString(bytes)) {
    return Error(StatusCode::kDataLoss, "STORE_CORRUPT", "a record of the history table is damaged");
  }
  record->mutable_job()->set_tenant(TenantOrDefault(record->job().tenant()));
  return record;
}

absl::Status JobNotFound(const std::string& job) {
  return Error(StatusCode::kNotFound, "JOB_NOT_FOUND",
               absl::StrCat("there is no job ", Shortened(job, kMaxShownBytes)));
}

bool JobQueries::IsInMemory(const std::string& id) const {
  return options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(id) != nullptr; });
}

absl::StatusOr<JobRecordPtr> JobQueries::FindRecord(const std::string& id) const {
  JobRecordPtr record = options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(id); });
  if (record != nullptr) {
    return record;
  }
  AMPD_ASSIGN_OR_RETURN(const std::optional<std::string> archived, options_.ledger->history().FindArchived(id));
  if (!archived.has_value()) {
    return JobNotFound(id);
  }
  return ParseJobRecord(*archived);
}

absl::StatusOr<JobPtr> JobQueries::GetJob(const std::string& id) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(id));
  return JobOf(record);
}

JobQueries::Place JobQueries::FindPlace(const v1::Job* job) const {
  LiveWorkers live = options_.sessions->Live();
  return options_.ledger->Read([&](const ClusterState& state) {
    return Place{.fleet = Fleet(state, std::move(live)),
                 .first_queued = state.queue().empty() ? "" : state.queue().begin()->second->job().id(),
                 .is_behind = job != nullptr && CountAhead(state, *job) > 0,
                 .jobs_ahead = job == nullptr ? 0 : CountAheadInTenant(state, *job)};
  });
}

void JobQueries::AddReportedStep(v1::Job* job) const {
  if (!job->spec().has_predict() || IsTerminal(job->state()) || job->attempts().empty()) {
    return;
  }
  const v1::Attempt& attempt = *job->attempts().rbegin();
  const int64_t step = options_.sessions->ReportedStep(attempt.worker(), job->id(), attempt.number());
  if (step > job->progress().step()) {
    job->mutable_progress()->set_step(step);
    job->mutable_progress()->set_samples(step * job->spec().data().batch_size());
  }
}

void JobQueries::AddPending(v1::Job* job) const {
  const absl::StatusOr<JobRecordPtr> record =
      job->state() == v1::Job::QUEUED ? FindRecord(job->id()) : absl::StatusOr<JobRecordPtr>(nullptr);
  if (!record.ok() || *record == nullptr) {
    return;
  }
  if (std::optional<v1::Pending> pending = PendingIfQueued(**record); pending.has_value()) {
    *job->mutable_pending() = *std::move(pending);
  }
}

std::optional<v1::Pending> JobQueries::PendingIfQueued(internal::JobRecord record) const {
  record.mutable_job()->set_state(v1::Job::QUEUED);
  const Place place = FindPlace(nullptr);
  PendingReasons reasons({&place.fleet, place.first_queued, absl::ToUnixMicros(options_.clock->Now())});
  return reasons.Find(record);
}

absl::StatusOr<v1::ExplainJobResponse> JobQueries::ExplainJob(const v1::ExplainJobRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  const Place place = FindPlace(&record->job());
  v1::ExplainJobResponse response =
      ExplainWaiting(place.fleet, place.is_behind, *record, absl::ToUnixMicros(options_.clock->Now()));
  response.set_jobs_ahead(record->job().state() == v1::Job::QUEUED ? place.jobs_ahead : 0);
  response.set_num_devices(response.devices_size());
  PageBudget budget;
  int num_shown = 0;
  while (num_shown < response.devices_size() && budget.Take(response.devices(num_shown).ByteSizeLong())) {
    ++num_shown;
  }
  response.mutable_devices()->DeleteSubrange(num_shown, response.devices_size() - num_shown);
  return response;
}

absl::StatusOr<v1::ListCheckpointsResponse> JobQueries::ListCheckpoints(
    const v1::ListCheckpointsRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  v1::ListCheckpointsResponse response;
  *response.mutable_checkpoints() = record->job().checkpoints();
  return response;
}

absl::StatusOr<JobQueries::CheckpointPlace> JobQueries::FindCheckpoint(const std::string& job, int32_t attempt,
                                                                       int64_t step) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(job));
  const auto& checkpoints = record->job().checkpoints();
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(), [&](const v1::Checkpoint& checkpoint) {
    return checkpoint.attempt() == attempt && checkpoint.step() == step;
  });
  if (found == checkpoints.end()) {
    return Error(StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
                 absl::StrCat("job ", job, " has no checkpoint of step ", step, " in attempt ", attempt));
  }
  std::string worker = options_.ledger->Read([&, live = options_.sessions->Live()](const ClusterState& state) {
    std::string reaching;
    for (const auto& [name, record] : state.workers()) {
      const auto facts = live.find(name);
      const bool runs = facts != live.end() && !facts->second.is_stopping;
      const bool is_better = reaching.empty() || name == found->worker();
      reaching = runs && is_better && Reaches(*record, *found) ? name : reaching;
    }
    return reaching;
  });
  return CheckpointPlace{.checkpoint = *found, .worker = std::move(worker)};
}

std::vector<v1::Worker> JobQueries::WorkersFor(const std::string& tenant, const v1::JobSpec& spec) const {
  const LiveWorkers live = options_.sessions->Live();
  return options_.ledger->Read([&](const ClusterState& state) { return MatchingWorkers(state, live, tenant, spec); });
}

std::optional<v1::Device> JobQueries::FindDevice(const std::string& worker, const std::string& device) const {
  const auto record = options_.ledger->Read([&](const ClusterState& state) { return state.FindWorker(worker); });
  if (record != nullptr) {
    for (const v1::Device& known : record->worker().devices()) {
      if (known.id() == device) {
        return known;
      }
    }
  }
  return std::nullopt;
}

std::vector<JobQueries::LiveArtifact> JobQueries::LiveArtifacts() const {
  return options_.ledger->Read([](const ClusterState& state) {
    std::vector<LiveArtifact> live;
    for (const auto& [order, record] : state.jobs()) {
      const std::string& artifact = record->job().spec().model().exported().artifact();
      if (!artifact.empty() && !IsTerminal(record->job().state())) {
        live.push_back({record->job().tenant(), artifact, record->job().id()});
      }
    }
    return live;
  });
}

absl::StatusOr<JobQueries::AttemptPlace> JobQueries::FindAttempt(const v1::AttemptKey& key) const {
  const JobRecordPtr record =
      options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(key.job_id()); });
  if (record == nullptr) {
    return JobNotFound(key.job_id());
  }
  AMPD_ASSIGN_OR_RETURN(const v1::Attempt* attempt, FindAttemptByToken(*record, key));
  const bool ended = attempt->state() == v1::Attempt::ENDED;
  if (ended && !EndedByItself(*attempt)) {
    return Fenced(key);
  }
  return AttemptPlace{attempt->from_step(), ended, record->job().tenant(),
                      key.attempt() == record->interrupted_attempt()};
}

}  // namespace ampd::server
