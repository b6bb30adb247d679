// Read-only queries.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/page_budget.h"
#include "base/page_size.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using v1::Job;

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 500;
constexpr size_t kMaxShownBytes = 80;

absl::StatusOr<JobRecordPtr> ParseRecord(const std::string& bytes) {
  auto record = std::make_shared<internal::JobRecord>();
  if (!record->ParseFromString(bytes)) {
    return Error(StatusCode::kDataLoss, "STORE_CORRUPT", "a record of the history table is damaged");
  }
  return record;
}

}  // namespace

absl::StatusOr<JobRecordPtr> Coordinator::FindRecord(const std::string& id) const {
  JobRecordPtr record = options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(id); });
  if (record != nullptr) {
    return record;
  }
  AMPD_ASSIGN_OR_RETURN(const std::optional<std::string> archived, options_.ledger->history().FindArchived(id));
  if (!archived.has_value()) {
    return Error(StatusCode::kNotFound, "JOB_NOT_FOUND",
                 absl::StrCat("there is no job ", Shortened(id, kMaxShownBytes)));
  }
  return ParseRecord(*archived);
}

absl::StatusOr<JobPtr> Coordinator::GetJob(const std::string& id) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(id));
  return JobOf(record);
}

absl::StatusOr<v1::ExplainJobResponse> Coordinator::ExplainJob(const v1::ExplainJobRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  LiveWorkers live;
  {
    absl::MutexLock lock(&mutex_);
    live = Live();
  }
  const int64_t now = absl::ToUnixMicros(options_.clock->Now());
  v1::ExplainJobResponse response =
      options_.ledger->Read([&](const ClusterState& state) { return ExplainWaiting(state, live, *record, now); });
  response.set_num_devices(response.devices_size());
  PageBudget budget;
  int num_shown = 0;
  while (num_shown < response.devices_size() && budget.Take(response.devices(num_shown).ByteSizeLong())) {
    ++num_shown;
  }
  response.mutable_devices()->DeleteSubrange(num_shown, response.devices_size() - num_shown);
  return response;
}

absl::StatusOr<v1::ListCheckpointsResponse> Coordinator::ListCheckpoints(
    const v1::ListCheckpointsRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  v1::ListCheckpointsResponse response;
  *response.mutable_checkpoints() = record->job().checkpoints();
  return response;
}

absl::StatusOr<v1::ListWorkersResponse> Coordinator::ListWorkers(const v1::ListWorkersRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size(), kDefaultPage, kMaxPage));
  absl::MutexLock lock(&mutex_);
  return options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    v1::ListWorkersResponse response;
    PageBudget budget;
    for (auto worker = state.workers().upper_bound(request.page_token()); worker != state.workers().end(); ++worker) {
      v1::Worker view = ViewOf(state, *worker->second);
      if (response.workers_size() == page_size || !budget.Take(view.ByteSizeLong())) {
        response.set_next_page_token(response.workers().rbegin()->name());
        break;
      }
      *response.add_workers() = std::move(view);
    }
    if (request.page_token().empty()) {
      response.set_total_size(static_cast<int64_t>(state.workers().size()));
    }
    return response;
  });
}

std::vector<v1::Worker> Coordinator::WorkersFor(const v1::JobSpec& spec) const {
  LiveWorkers live;
  {
    absl::MutexLock lock(&mutex_);
    live = Live();
  }
  return options_.ledger->Read([&](const ClusterState& state) { return MatchingWorkers(state, live, spec); });
}

std::optional<v1::Device> Coordinator::FindDevice(const std::string& worker, const std::string& device) const {
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

std::map<std::string, std::string> Coordinator::LiveArtifacts() const {
  return options_.ledger->Read([](const ClusterState& state) {
    std::map<std::string, std::string> live;
    for (const auto& [order, record] : state.jobs()) {
      const std::string& artifact = record->job().spec().model().exported().artifact();
      if (!artifact.empty() && !IsTerminal(record->job().state())) {
        live.emplace(artifact, record->job().id());
      }
    }
    return live;
  });
}

absl::StatusOr<Coordinator::UploadedModel> Coordinator::FindModel(const v1::ModelSpec& spec) const {
  const std::string& artifact = spec.exported().artifact();
  if (artifact.empty()) {
    return UploadedModel();
  }
  absl::StatusOr<std::shared_ptr<void>> hold = absl::NotFoundError("");
  if (options_.hold_artifact) {
    hold = options_.hold_artifact(artifact);
  }
  if (absl::IsNotFound(hold.status())) {
    const std::string shown = Shortened(artifact, kMaxShownBytes);
    return ErrorWithMetadata(StatusCode::kNotFound, "ARTIFACT_NOT_FOUND",
                             absl::StrCat("model.exported.artifact: the server has no file ", shown,
                                          "; ampctl artifact upload FILE sends it"),
                             {{"artifact", shown}});
  }
  AMPD_RETURN_IF_ERROR(hold.status());
  UploadedModel model{*std::move(hold), nullptr};
  if (options_.read_model) {
    AMPD_ASSIGN_OR_RETURN(model.exported, options_.read_model(artifact));
  }
  return model;
}

v1::Worker Coordinator::ViewOf(const ClusterState& state, const internal::WorkerRecord& record) const {
  v1::Worker view = record.worker();
  const std::vector<JobRecordPtr> jobs = state.JobsOn(view.name());
  for (const JobRecordPtr& job : jobs) {
    view.add_job_ids(job->job().id());
  }
  if (const auto session = sessions_.find(view.name()); session != sessions_.end()) {
    view.mutable_last_report_time()->set_seconds(absl::ToUnixSeconds(session->second.report_time));
    for (v1::Device& device : *view.mutable_devices()) {
      for (const v1::Device& reported : session->second.report.devices()) {
        if (reported.id() == device.id()) {
          device.set_memory_free_bytes(reported.memory_free_bytes());
        }
      }
    }
  }
  const auto session = sessions_.find(view.name());
  const bool stopping = session != sessions_.end() && session->second.report.stopping();
  if (stopping && !record.lost()) {
    view.set_message("its agent is stopping");
  }
  if (session != sessions_.end() && !session->second.rival.empty() &&
      options_.clock->SinceBoot() - session->second.rival_since_boot <= options_.lease + options_.lease_margin) {
    view.set_message(session->second.rival);
  }
  const bool busy = std::all_of(view.devices().begin(), view.devices().end(), [&](const v1::Device& device) {
    return state.DeviceIsHeld(record.worker().name(), device.id());
  });
  view.set_state(record.lost()               ? v1::Worker::LOST
                 : record.worker().drained() ? v1::Worker::DRAINING
                 : stopping                  ? v1::Worker::DRAINING
                 : busy                      ? v1::Worker::BUSY
                                             : v1::Worker::READY);
  return view;
}

absl::StatusOr<Coordinator::AttemptPlace> Coordinator::FindAttempt(const v1::AttemptKey& key) const {
  const JobRecordPtr record =
      options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(key.job_id()); });
  if (record == nullptr) {
    return Error(StatusCode::kNotFound, "JOB_NOT_FOUND",
                 absl::StrCat("there is no job ", Shortened(key.job_id(), kMaxShownBytes)));
  }
  AMPD_ASSIGN_OR_RETURN(const v1::Attempt* attempt, FindAttemptByToken(*record, key));
  const bool ended = attempt->state() == v1::Attempt::ENDED;
  if (ended && !EndedByItself(*attempt)) {
    return Fenced(key);
  }
  return AttemptPlace{attempt->from_step(), ended};
}

Coordinator::Counts Coordinator::counts() const {
  absl::MutexLock lock(&mutex_);
  return options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Counts counts;
    for (const auto& [order, record] : state.jobs()) {
      ++counts.jobs[record->job().state()];
    }
    for (const auto& [name, record] : state.workers()) {
      ++counts.workers[ViewOf(state, *record).state()];
      for (const v1::Device& device : record->worker().devices()) {
        ++counts.num_devices;
        counts.num_devices_held += state.DeviceIsHeld(name, device.id()) ? 1 : 0;
      }
    }
    return counts;
  });
}

}  // namespace ampd::server
