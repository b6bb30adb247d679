#include "server/coordinator/job_queries.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/page_budget.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "server/state/attempt_tokens.h"
#include "server/state/job_rules.h"
#include "server/state/placement.h"

namespace ampd::server {
namespace {

using absl::StatusCode;

constexpr size_t kMaxShownBytes = 80;

absl::StatusOr<JobRecordPtr> ParseRecord(const std::string& bytes) {
  auto record = std::make_shared<internal::JobRecord>();
  if (!record->ParseFromString(bytes)) {
    return Error(StatusCode::kDataLoss, "STORE_CORRUPT", "a record of the history table is damaged");
  }
  return record;
}

}  // namespace

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
    return Error(StatusCode::kNotFound, "JOB_NOT_FOUND",
                 absl::StrCat("there is no job ", Shortened(id, kMaxShownBytes)));
  }
  return ParseRecord(*archived);
}

absl::StatusOr<JobPtr> JobQueries::GetJob(const std::string& id) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(id));
  return JobOf(record);
}

absl::StatusOr<v1::ExplainJobResponse> JobQueries::ExplainJob(const v1::ExplainJobRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  const LiveWorkers live = options_.sessions->Live();
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

absl::StatusOr<v1::ListCheckpointsResponse> JobQueries::ListCheckpoints(
    const v1::ListCheckpointsRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  v1::ListCheckpointsResponse response;
  *response.mutable_checkpoints() = record->job().checkpoints();
  return response;
}

std::vector<v1::Worker> JobQueries::WorkersFor(const v1::JobSpec& spec) const {
  const LiveWorkers live = options_.sessions->Live();
  return options_.ledger->Read([&](const ClusterState& state) { return MatchingWorkers(state, live, spec); });
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

std::map<std::string, std::string> JobQueries::LiveArtifacts() const {
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

absl::StatusOr<JobQueries::AttemptPlace> JobQueries::FindAttempt(const v1::AttemptKey& key) const {
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

}  // namespace ampd::server
