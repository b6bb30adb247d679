#include "server/state/placement.h"

#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

using internal::JobRecord;
using precision::PresetChoice;
using v1::Device;
using v1::DeviceVerdict;

std::vector<Candidate> AllDevices(const ClusterState& state, const LiveWorkers& live) {
  std::vector<Candidate> candidates;
  for (const auto& [name, record] : state.workers()) {
    const auto facts = live.find(name);
    for (const Device& device : record->worker().devices()) {
      candidates.push_back({record.get(), &device, facts == live.end() ? nullptr : &facts->second,
                            state.DeviceIsHeld(name, device.id())});
    }
  }
  return candidates;
}

// Ranks reasons from the most hopeful to the least. A job's reason for waiting is that of its most hopeful device.
int Hope(v1::PendingReason reason) {
  switch (reason) {
    case v1::PLACEMENT_DUE:
      return 0;
    case v1::DEVICE_BUSY:
      return 1;
    case v1::INSUFFICIENT_MEMORY:
      return 2;
    case v1::WAITING_FOR_CHECKPOINT_WORKER:
      return 3;
    case v1::WORKER_UNAVAILABLE:
      return 4;
    case v1::CAPABILITY_TOO_LOW:
      return 5;
    default:
      return 6;
  }
}

int CountAhead(const ClusterState& state, const v1::Job& job) {
  int ahead = 0;
  for (const auto& [key, record] : state.queue()) {
    if (record->job().id() == job.id()) {
      break;
    }
    ++ahead;
  }
  return ahead;
}

void Conclude(const v1::Job& job, v1::ExplainJobResponse* response) {
  const DeviceVerdict* best = nullptr;
  for (const DeviceVerdict& verdict : response->devices()) {
    if (best == nullptr || Hope(verdict.reason()) < Hope(best->reason())) {
      best = &verdict;
    }
  }
  if (best == nullptr) {
    response->set_reason(v1::NO_WORKERS);
    response->set_message("no worker has ever reported a device");
    return;
  }
  const bool behind = best->reason() == v1::PLACEMENT_DUE && response->jobs_ahead() > 0;
  response->set_reason(behind ? v1::BEHIND_OTHERS : best->reason());
  response->set_message(
      absl::StrCat("job ", job.id(), ": ", best->message(), " (", best->worker(), "/", best->device(), ")"));
}

}  // namespace

std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const v1::JobSpec& spec) {
  std::vector<v1::Worker> workers;
  for (const Candidate& candidate : AllDevices(state, live)) {
    DeviceVerdict verdict;
    if (!WorkerServes(spec, candidate, &verdict) || !DeviceMatches(spec, /*begins=*/true, candidate, &verdict)) {
      continue;
    }
    const v1::Worker& worker = candidate.worker->worker();
    if (workers.empty() || workers.back().name() != worker.name()) {
      workers.push_back(worker);
      workers.back().clear_devices();
    }
    *workers.back().add_devices() = *candidate.device;
  }
  return workers;
}

v1::ExplainJobResponse ExplainWaiting(const ClusterState& state, const LiveWorkers& live, const JobRecord& record,
                                      int64_t now_unix_micros) {
  v1::ExplainJobResponse response;
  response.set_state(record.job().state());
  if (record.job().state() != v1::Job::QUEUED) {
    response.set_reason(v1::NOT_PENDING);
    response.set_message(absl::StrCat("job ", record.job().id(), " is ", v1::Job::State_Name(record.job().state())));
    return response;
  }
  response.set_jobs_ahead(CountAhead(state, record.job()));
  for (const Candidate& candidate : AllDevices(state, live)) {
    PresetChoice choice;
    CanBegin(record, StartPoint(record), candidate, &choice, response.add_devices());
  }
  if (WaitsForRetry(record, now_unix_micros)) {
    response.set_reason(v1::RETRY_BACKOFF);
    response.set_message(absl::StrCat(
        "the next attempt begins in ",
        absl::FormatDuration(absl::Seconds((record.not_before_unix_micros() - now_unix_micros) / 1'000'000 + 1)),
        " at the earliest"));
    return response;
  }
  Conclude(record.job(), &response);
  return response;
}

}  // namespace ampd::server
