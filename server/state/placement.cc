#include "server/state/placement.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace ampd::server {
namespace {

using internal::JobRecord;
using precision::PresetChoice;
using v1::Device;
using v1::DeviceVerdict;
using v1::PendingReason;

// The size limit for the message that says why a job waits. A page of 500 jobs with such messages stays below the size
// that clients accept.
constexpr size_t kMaxReasonBytes = 600;

std::set<std::string> HeldDevices(const ClusterState& state, const std::string& worker) {
  std::set<std::string> held;
  for (const JobRecordPtr& record : state.JobsOn(worker)) {
    const v1::Attempt& attempt = *record->job().attempts().rbegin();
    held.insert(attempt.devices().begin(), attempt.devices().end());
  }
  return held;
}

// Ranks the reasons why a job waits, from the most hopeful to the least. A job shows the reason of its most hopeful
// device.
int Hope(PendingReason::Code reason) {
  switch (reason) {
    case PendingReason::PLACEMENT_DUE:
      return 0;
    case PendingReason::DEVICE_BUSY:
      return 1;
    case PendingReason::INSUFFICIENT_MEMORY:
      return 2;
    case PendingReason::WAITING_FOR_CHECKPOINT_WORKER:
      return 3;
    case PendingReason::WORKER_UNAVAILABLE:
      return 4;
    case PendingReason::CAPABILITY_TOO_LOW:
      return 5;
    case PendingReason::PENDING_REASON_UNSPECIFIED:  // There is no device.
      return 7;
    default:
      return 6;
  }
}

// Compares the job with the device. Returns whether the device suits the job.
bool Examine(const JobRecord& record, const std::optional<v1::Checkpoint>& start, const Candidate& candidate,
             DeviceVerdict* verdict) {
  PresetChoice choice;
  const bool suits = Suits(record, start, candidate, &choice, verdict);
  if (suits) {
    IsFreeFor(record.job().spec(), candidate, verdict);
  }
  return suits;
}

v1::Pending Conclude(const JobRecord& record, const DeviceVerdict& best, bool fits, bool is_behind,
                     int64_t now_unix_micros) {
  v1::Pending pending;
  pending.set_reason(best.reason());
  pending.set_no_worker_fits(!fits);
  if (WaitsForRetry(record, now_unix_micros)) {
    pending.set_reason(PendingReason::RETRY_BACKOFF);
    pending.set_message(absl::StrCat(
        "the next attempt begins in ",
        absl::FormatDuration(absl::Seconds((record.not_before_unix_micros() - now_unix_micros) / 1'000'000 + 1)),
        " at the earliest"));
  } else if (best.reason() == PendingReason::PENDING_REASON_UNSPECIFIED) {
    pending.set_reason(PendingReason::NO_WORKERS);
    const std::string& tenant = record.job().tenant();
    pending.set_message(tenant == kDefaultTenant
                            ? "no worker has ever reported a device"
                            : absl::StrCat("no worker for the tenant ", tenant, " has ever reported a device"));
  } else {
    const bool waits_its_turn = best.reason() == PendingReason::PLACEMENT_DUE && is_behind;
    pending.set_reason(waits_its_turn ? PendingReason::BEHIND_OTHERS : best.reason());
    pending.set_message(
        Shortened(absl::StrCat(best.message(), " (", best.worker(), "/", best.device(), ")"), kMaxReasonBytes));
  }
  return pending;
}

}  // namespace

Fleet::Fleet(const ClusterState& state, LiveWorkers live) : live_(std::move(live)) {
  for (const auto& [name, record] : state.workers()) {
    const auto facts = live_.find(name);
    const std::set<std::string> held = HeldDevices(state, name);
    for (const Device& device : record->worker().devices()) {
      devices_.push_back(
          {record.get(), &device, facts == live_.end() ? nullptr : &facts->second, held.contains(device.id())});
    }
    workers_.push_back(record);
  }
}

std::vector<v1::Worker> MatchingWorkers(const ClusterState& state, const LiveWorkers& live, const std::string& tenant,
                                        const v1::JobSpec& spec) {
  std::vector<v1::Worker> workers;
  const Fleet fleet(state, live);
  for (const Candidate& candidate : fleet.devices()) {
    DeviceVerdict verdict;
    if (!ServesTenant(*candidate.worker, tenant) || !WorkerServes(spec, candidate, &verdict) ||
        !DeviceMatches(tenant, spec, /*begins=*/true, candidate, &verdict)) {
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

int CountAhead(const ClusterState& state, const v1::Job& job) {
  const auto place = state.queue().find({-job.spec().priority(), job.submit_order()});
  return place == state.queue().end() ? 0 : static_cast<int>(std::distance(state.queue().begin(), place));
}

int CountAheadInTenant(const ClusterState& state, const v1::Job& job) {
  const auto place = state.queue().find({-job.spec().priority(), job.submit_order()});
  return place == state.queue().end()
             ? 0
             : static_cast<int>(std::count_if(state.queue().begin(), place, [&](const auto& entry) {
                 return entry.second->job().tenant() == job.tenant();
               }));
}

v1::ExplainJobResponse ExplainWaiting(const Fleet& fleet, bool is_behind, const JobRecord& record,
                                      int64_t now_unix_micros) {
  v1::ExplainJobResponse response;
  response.set_state(record.job().state());
  if (record.job().state() != v1::Job::QUEUED) {
    response.set_reason(PendingReason::NOT_PENDING);
    response.set_message(absl::StrCat("job ", record.job().id(), " is ", v1::Job::State_Name(record.job().state())));
    return response;
  }
  const std::optional<v1::Checkpoint> start = StartPoint(record);
  const DeviceVerdict none;
  const DeviceVerdict* best = &none;
  bool fits = false;
  for (const Candidate& candidate : fleet.devices()) {
    if (!ServesTenant(*candidate.worker, record.job().tenant())) {
      continue;
    }
    DeviceVerdict* const verdict = response.add_devices();
    fits |= Examine(record, start, candidate, verdict);
    best = Hope(verdict->reason()) < Hope(best->reason()) ? verdict : best;
  }
  const v1::Pending pending = Conclude(record, *best, fits, is_behind, now_unix_micros);
  response.set_reason(pending.reason());
  response.set_message(pending.message());
  response.set_no_worker_fits(pending.no_worker_fits());
  return response;
}

const PendingReasons::Outlook* PendingReasons::FindOutlook(const JobRecord& record) {
  const std::string needs = NeedsOf(record);
  if (const auto known = by_needs_.find(needs); known != by_needs_.end()) {
    return &known->second;
  }
  const auto num_devices = static_cast<int64_t>(options_.fleet->devices().size());
  if (!by_needs_.empty() && num_examined_ + num_devices > options_.max_examined) {
    return nullptr;
  }
  num_examined_ += num_devices;
  Outlook& outlook = by_needs_[needs];
  const std::optional<v1::Checkpoint> start = StartPoint(record);
  for (const Candidate& candidate : options_.fleet->devices()) {
    if (!ServesTenant(*candidate.worker, record.job().tenant())) {
      continue;
    }
    DeviceVerdict verdict;
    outlook.fits |= Examine(record, start, candidate, &verdict);
    if (Hope(verdict.reason()) < Hope(outlook.best.reason())) {
      outlook.best = std::move(verdict);
    }
  }
  return &outlook;
}

std::optional<v1::Pending> PendingReasons::Find(const JobRecord& record) {
  const Outlook* const outlook = record.job().state() == v1::Job::QUEUED ? FindOutlook(record) : nullptr;
  if (outlook == nullptr) {
    return std::nullopt;
  }
  return Conclude(record, outlook->best, outlook->fits, record.job().id() != options_.first_queued,
                  options_.now_unix_micros);
}

}  // namespace ampd::server
