// What can be asked without changing anything.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/attempt_tokens.h"
#include "server/coordinator.h"
#include "server/job_rules.h"
#include "server/ledger.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using v1::Job;

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 500;
constexpr char kTermForms[] = "terms are state=, name=, queue=, id= or labels.KEY=, joined by AND";

// One term of a filter, KEY=VALUE.
struct Term {
  std::string key;
  std::string value;
};

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int state = Job::STATE_UNSPECIFIED + 1; state <= Job::State_MAX; ++state) {
    names.push_back(Job::State_Name(state));
  }
  return names;
}

absl::StatusOr<std::vector<Term>> ParseFilter(const std::string& filter) {
  std::vector<Term> terms;
  if (filter.empty()) {
    return terms;
  }
  if (filter.size() > 4096) {
    return InvalidFields({{"filter", "is longer than 4096 bytes"}});
  }
  // With the spaces, so that an AND at either end joins a term that is not there.
  const std::string padded = absl::StrCat(" ", filter, " ");
  for (const absl::string_view piece : absl::StrSplit(padded, " AND ")) {
    const absl::string_view text = absl::StripAsciiWhitespace(piece);
    if (text.empty()) {
      return InvalidFields({{"filter", absl::StrCat("has no term where one is wanted; ", kTermForms)}});
    }
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    const std::string& key = parts[0];
    const bool known = key == "state" || key == "name" || key == "queue" || key == "id" ||
                       (absl::StartsWith(key, "labels.") && key.size() > 7);
    if (parts.size() != 2 || !known) {
      return InvalidFields({{"filter", absl::StrCat("has \"", std::string(text.substr(0, 80)), "\"; ", kTermForms)}});
    }
    Job::State state = Job::STATE_UNSPECIFIED;
    if (key == "state" && !Job::State_Parse(parts[1], &state)) {
      return InvalidFields({{"filter", absl::StrCat("has the state \"", parts[1].substr(0, 80), "\"; states are ",
                                                    absl::StrJoin(StateNames(), ", "))}});
    }
    terms.push_back({key, parts[1]});
  }
  return terms;
}

bool Matches(const Job& job, const Term& term) {
  if (term.key == "state") {
    return Job::State_Name(job.state()) == term.value;
  }
  if (term.key == "name") {
    return job.spec().name() == term.value;
  }
  if (term.key == "queue") {
    return job.spec().queue() == term.value;
  }
  if (term.key == "id") {
    return job.id() == term.value;
  }
  const auto label = job.spec().labels().find(term.key.substr(7));
  return label != job.spec().labels().end() && label->second == term.value;
}

bool Matches(const Job& job, const std::vector<Term>& terms) {
  return std::all_of(terms.begin(), terms.end(), [&](const Term& term) { return Matches(job, term); });
}

absl::StatusOr<int> PageSize(int asked) {
  if (asked < 0) {
    return InvalidFields({{"page_size", absl::StrCat("is ", asked, "; must be 0 to ", kMaxPage)}});
  }
  return asked == 0 ? kDefaultPage : std::min(asked, kMaxPage);
}

absl::StatusOr<JobRecordPtr> ParseRecord(const std::string& bytes) {
  auto record = std::make_shared<internal::JobRecord>();
  if (!record->ParseFromString(bytes)) {
    return Error(StatusCode::kDataLoss, "JOURNAL_CORRUPT", "a record of the history table is damaged");
  }
  return record;
}

// Jobs of the hot state below `before`, newest first.
std::map<int64_t, JobPtr> CollectHot(const ClusterState& state, int64_t before, const std::vector<Term>& terms,
                                     size_t limit) {
  std::map<int64_t, JobPtr> jobs;
  const auto end = std::make_reverse_iterator(state.jobs().lower_bound(before));
  for (auto entry = end; entry != state.jobs().rend() && jobs.size() < limit; ++entry) {
    if (Matches(entry->second->job(), terms)) {
      jobs[entry->first] = JobOf(entry->second);
    }
  }
  return jobs;
}

// Adds jobs of the history table until there are `limit` more.
absl::Status CollectArchived(Journal& history, int64_t before, const std::vector<Term>& terms, size_t limit,
                             std::map<int64_t, JobPtr>* jobs) {
  size_t num_added = 0;
  while (num_added < limit) {
    AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> records, history.ListArchived(before, kMaxPage));
    for (const std::string& bytes : records) {
      AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, ParseRecord(bytes));
      before = record->job().submit_order();
      if (num_added < limit && Matches(record->job(), terms)) {
        num_added += jobs->emplace(before, JobOf(record)).second ? 1 : 0;
      }
    }
    if (records.size() < kMaxPage) {
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobRecordPtr> Coordinator::FindRecord(const std::string& id) const {
  JobRecordPtr record = options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(id); });
  if (record != nullptr) {
    return record;
  }
  AMPD_ASSIGN_OR_RETURN(const std::optional<std::string> archived, options_.ledger->history().FindArchived(id));
  if (!archived.has_value()) {
    return Error(StatusCode::kNotFound, "JOB_NOT_FOUND", absl::StrCat("there is no job ", id.substr(0, 80)));
  }
  return ParseRecord(*archived);
}

absl::StatusOr<JobPtr> Coordinator::GetJob(const std::string& id) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(id));
  return JobOf(record);
}

absl::StatusOr<v1::ListJobsResponse> Coordinator::ListJobs(const v1::ListJobsRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  AMPD_ASSIGN_OR_RETURN(const std::vector<Term> terms, ParseFilter(request.filter()));
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &before)) {
    return InvalidFields({{"page_token", "is not one that this server gave"}});
  }
  const size_t limit = static_cast<size_t>(page_size) + 1;  // one more tells whether there is a next page
  // The hot state first: a job on its way to the history table is then seen in at least one of them.
  std::map<int64_t, JobPtr> jobs =
      options_.ledger->Read([&](const ClusterState& state) { return CollectHot(state, before, terms, limit); });
  AMPD_RETURN_IF_ERROR(CollectArchived(options_.ledger->history(), before, terms, limit, &jobs));
  v1::ListJobsResponse response;
  for (auto entry = jobs.rbegin(); entry != jobs.rend(); ++entry) {
    if (response.jobs_size() == page_size) {
      response.set_next_page_token(absl::StrCat(response.jobs(page_size - 1).submit_order()));
      break;
    }
    *response.add_jobs() = *entry->second;
  }
  return response;
}

absl::StatusOr<v1::ExplainJobResponse> Coordinator::ExplainJob(const v1::ExplainJobRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  LiveWorkers live;
  {
    absl::MutexLock lock(&mutex_);
    live = Live();
  }
  const int64_t now = absl::ToUnixMicros(options_.clock->Now());
  return options_.ledger->Read([&](const ClusterState& state) { return ExplainWaiting(state, live, *record, now); });
}

absl::StatusOr<v1::ListCheckpointsResponse> Coordinator::ListCheckpoints(
    const v1::ListCheckpointsRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, FindRecord(request.id()));
  v1::ListCheckpointsResponse response;
  *response.mutable_checkpoints() = record->job().checkpoints();
  return response;
}

absl::StatusOr<v1::ListWorkersResponse> Coordinator::ListWorkers(const v1::ListWorkersRequest& request) const {
  AMPD_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  absl::MutexLock lock(&mutex_);
  return options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    v1::ListWorkersResponse response;
    for (auto worker = state.workers().upper_bound(request.page_token()); worker != state.workers().end(); ++worker) {
      if (response.workers_size() == page_size) {
        response.set_next_page_token(response.workers(page_size - 1).name());
        break;
      }
      *response.add_workers() = ViewOf(state, *worker->second);
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
    const std::string shown = artifact.substr(0, 64);
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
  const bool busy = std::all_of(view.devices().begin(), view.devices().end(), [&](const v1::Device& device) {
    return state.DeviceIsHeld(record.worker().name(), device.id());
  });
  view.set_state(record.lost()               ? v1::Worker::LOST
                 : record.worker().drained() ? v1::Worker::DRAINING
                 : busy                      ? v1::Worker::BUSY
                                             : v1::Worker::READY);
  return view;
}

absl::StatusOr<Coordinator::AttemptPlace> Coordinator::FindAttempt(const v1::AttemptKey& key) const {
  const JobRecordPtr record =
      options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(key.job_id()); });
  if (record == nullptr) {
    return Error(StatusCode::kNotFound, "JOB_NOT_FOUND", absl::StrCat("there is no job ", key.job_id().substr(0, 80)));
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
