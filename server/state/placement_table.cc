#include "server/state/placement_table.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using internal::JobRecord;
using precision::PresetChoice;
using v1::Job;

const v1::Attempt& NewestAttempt(const JobRecord& record) { return *record.job().attempts().rbegin(); }

ClusterState::QueueKey KeyOf(const JobRecord& record) {
  return {-record.job().spec().priority(), record.job().submit_order()};
}

// Returns a value for sorting the candidates for a job: the better the candidate, the smaller the value.
auto Preference(const v1::Device& device, const PresetChoice& choice) {
  return std::tuple(device.kind() != v1::Device::GPU, choice.emulated);
}

int64_t FreeBytes(const WorkerFacts& facts, const std::string& device) {
  const auto free = facts.free_bytes.find(device);
  return free == facts.free_bytes.end() ? 0 : free->second;
}

bool IsUsable(const WorkerRecordPtr& record, const std::optional<WorkerFacts>& facts) {
  return record != nullptr && !record->lost() && !record->worker().drained() && facts.has_value() &&
         !facts->is_stopping;
}

}  // namespace

void PlacementTable::PutJob(const std::string& id, const JobRecordPtr& record) {
  if (const auto before = jobs_.find(id); before != jobs_.end()) {
    RemoveJob(before->second);
    jobs_.erase(before);
  }
  if (record != nullptr && (record->job().state() == Job::QUEUED || IsActive(record->job().state()))) {
    jobs_[id] = record;
    AddJob(record);
  }
}

void PlacementTable::AddJob(const JobRecordPtr& record) {
  if (IsActive(record->job().state())) {
    const v1::Attempt& attempt = NewestAttempt(*record);
    for (const std::string& device : attempt.devices()) {
      Hold(attempt.worker(), device);
    }
  } else if (!reserved_.contains(record->job().id())) {
    queue_[KeyOf(*record)] = record;
    changed_jobs_.insert(KeyOf(*record));
  }
}

void PlacementTable::RemoveJob(const JobRecordPtr& record) {
  if (IsActive(record->job().state())) {
    const v1::Attempt& attempt = NewestAttempt(*record);
    for (const std::string& device : attempt.devices()) {
      Release(attempt.worker(), device);
    }
  } else {
    queue_.erase(KeyOf(*record));
    changed_jobs_.erase(KeyOf(*record));
    waits_.erase({record->not_before_unix_micros(), KeyOf(*record)});
  }
}

void PlacementTable::Hold(const std::string& worker, const std::string& device) {
  if (++num_holds_[{worker, device}] == 1) {
    RefreshWorker(worker, {});
  }
}

void PlacementTable::Release(const std::string& worker, const std::string& device) {
  const auto holds = num_holds_.find({worker, device});
  if (--holds->second == 0) {
    num_holds_.erase(holds);
    RefreshWorker(worker, {});
  }
}

void PlacementTable::PutWorker(const std::string& name, const WorkerRecordPtr& record) {
  WorkerEntry& entry = workers_[name];
  entry.record = record;
  std::set<std::string> devices;
  if (record != nullptr) {
    for (const v1::Device& device : record->worker().devices()) {
      devices.insert(device.id());
    }
  }
  RefreshWorker(name, devices);
}

void PlacementTable::PutFacts(const std::string& worker, std::optional<WorkerFacts> facts, absl::Duration now) {
  WorkerEntry& entry = workers_[worker];
  std::set<std::string> changed;
  if (facts.has_value()) {
    // If the previous facts had expired, the worker's devices were not considered. The new facts then mark all its
    // devices as changed.
    const bool was_fresh = entry.facts.has_value() && now <= entry.facts->fresh_until;
    for (const auto& [device, free_bytes] : facts->free_bytes) {
      if (!was_fresh || free_bytes > FreeBytes(*entry.facts, device)) {
        changed.insert(device);
      }
    }
    if (!was_fresh && entry.record != nullptr) {
      for (const v1::Device& device : entry.record->worker().devices()) {
        changed.insert(device.id());
      }
    }
  }
  entry.facts = std::move(facts);
  RefreshWorker(worker, changed);
}

void PlacementTable::RefreshWorker(const std::string& name, const std::set<std::string>& changed) {
  const auto worker = workers_.find(name);
  if (worker == workers_.end()) {
    return;
  }
  const auto first = free_.lower_bound({name, 0});
  const auto last = free_.upper_bound({name, std::numeric_limits<int>::max()});
  const std::set<DeviceKey> before(first, last);
  free_.erase(first, last);
  const auto& [record, facts] = worker->second;
  const int num_usable = IsUsable(record, facts) ? record->worker().devices_size() : 0;
  for (int i = 0; i < num_usable; ++i) {
    const std::string& id = record->worker().devices(i).id();
    const DeviceKey key = {name, i};
    if (!num_holds_.contains({name, id})) {
      free_.insert(key);
      if (changed.contains(id) || !before.contains(key)) {
        changed_devices_.insert(key);
      }
    }
  }
  for (auto key = changed_devices_.lower_bound({name, 0}); key != changed_devices_.end() && key->first == name;) {
    key = free_.contains(*key) ? std::next(key) : changed_devices_.erase(key);
  }
  if (record == nullptr && !facts.has_value()) {
    workers_.erase(worker);
  }
}

void PlacementTable::EndWaits(int64_t now_unix_micros) {
  const auto end = [&](std::pair<int64_t, QueueKey> wait) {
    if (WaitsForRetry(*queue_.at(wait.second), now_unix_micros)) {
      return false;
    }
    changed_jobs_.insert(wait.second);
    waits_.erase(wait);
    return true;
  };
  while (!waits_.empty() && end(*waits_.begin())) {
  }
  // A wait that is longer than any retry delay was recorded before the clock was set back. Such a wait ends now.
  while (!waits_.empty() && end(*waits_.rbegin())) {
  }
}

std::optional<ClusterState::QueueKey> PlacementTable::NextToExamine(const QueueKey& key) const {
  if (changed_devices_.empty()) {
    const auto next = changed_jobs_.lower_bound(key);
    return next == changed_jobs_.end() ? std::nullopt : std::optional(*next);
  }
  const auto next = queue_.lower_bound(key);
  return next == queue_.end() ? std::nullopt : std::optional(next->first);
}

std::optional<Placement> PlacementTable::BestPlacement(const JobRecordPtr& record, const std::set<DeviceKey>& devices,
                                                       absl::Duration now) {
  std::optional<Placement> best;
  const v1::Device* best_device = nullptr;
  const std::optional<v1::Checkpoint> start = StartPoint(*record);
  for (const auto& [name, index] : devices) {
    const WorkerEntry& worker = workers_.at(name);
    const v1::Device& device = worker.record->worker().devices(index);
    if (now > worker.facts->fresh_until) {
      continue;
    }
    ++num_examined_;
    PresetChoice choice;
    v1::DeviceVerdict verdict;
    const Candidate candidate = {worker.record.get(), &device, &*worker.facts, /*held=*/false};
    if (CanBegin(*record, start, candidate, &choice, &verdict) &&
        (best_device == nullptr || Preference(device, choice) < Preference(*best_device, best->precision))) {
      best = Placement{record, name, device.id(), std::move(choice), start};
      best_device = &device;
    }
  }
  return best;
}

void PlacementTable::Reserve(const Placement& placement) {
  const std::string& id = placement.job->job().id();
  queue_.erase(KeyOf(*placement.job));
  reserved_[id] = {placement.worker, placement.device};
  Hold(placement.worker, placement.device);
}

void PlacementTable::Settle(const std::string& job) {
  const auto reserved = reserved_.find(job);
  if (reserved == reserved_.end()) {
    return;
  }
  const auto [worker, device] = reserved->second;
  reserved_.erase(reserved);
  Release(worker, device);
}

std::vector<Placement> PlacementTable::Place(int64_t now_unix_micros, absl::Duration now_since_boot) {
  std::vector<Placement> placements;
  EndWaits(now_unix_micros);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  QueueKey key = {std::numeric_limits<int32_t>::min(), kLeast};
  for (auto next = NextToExamine(key); next.has_value() && !free_.empty(); next = NextToExamine(key)) {
    const JobRecordPtr record = queue_.at(*next);
    const bool is_changed = changed_jobs_.erase(*next) > 0;
    key = {next->negative_priority, next->submit_order + 1};
    if (WaitsForRetry(*record, now_unix_micros)) {
      waits_.insert({record->not_before_unix_micros(), *next});
      continue;
    }
    if (auto placement = BestPlacement(record, is_changed ? free_ : changed_devices_, now_since_boot);
        placement.has_value()) {
      Reserve(*placement);
      placements.push_back(*std::move(placement));
    }
  }
  // Everything that changed has been examined: each changed job was compared with all devices that might fit it, and
  // each changed device with all jobs that might fit on it. If a device becomes free later, it is marked as changed
  // then.
  changed_jobs_.clear();
  changed_devices_.clear();
  return placements;
}

std::vector<std::string> PlacementTable::FreeDevices() const {
  std::vector<std::string> devices;
  for (const auto& [name, index] : free_) {
    devices.push_back(absl::StrCat(name, "/", workers_.at(name).record->worker().devices(index).id()));
  }
  return devices;
}

}  // namespace ampd::server
