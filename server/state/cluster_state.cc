#include "server/state/cluster_state.h"

#include <algorithm>

#include "base/version.h"
#include "google/protobuf/message.h"
#include "google/protobuf/unknown_field_set.h"
#include "server/state/job_rules.h"
#include "server/state/live_loss_scale.h"
#include "server/state/transition.h"

namespace ampd::server {
namespace {

ClusterState::QueueKey KeyOf(const v1::Job& job) { return {-job.spec().priority(), job.submit_order()}; }

const std::string& WorkerOf(const v1::Job& job) { return job.attempts(job.attempts_size() - 1).worker(); }

}  // namespace

JobPtr JobOf(const JobRecordPtr& record) { return record == nullptr ? nullptr : JobPtr(record, &record->job()); }

absl::StatusOr<Applied> ClusterState::Apply(const internal::Update& update) {
  absl::StatusOr<Applied> applied = Transition(*this, update).Run();
  if (applied.ok()) {
    Adopt(*applied);
  }
  return applied;
}

void ClusterState::Adopt(const Applied& applied) {
  if (applied.life > life_) {
    life_ = applied.life;
    server_version_ = applied.server_version;
    if (ParseVersion(server_version_) > ParseVersion(newest_server_version_)) {
      newest_server_version_ = server_version_;
    }
  }
  if (applied.epoch > 0) {
    epoch_ = applied.epoch;
    restored_in_life_ = life_;
  }
  if (applied.changed) {  // Otherwise the update is not in the journal, and a replay would miss its time.
    newest_time_unix_micros_ = std::max(newest_time_unix_micros_, applied.time_unix_micros);
  }
  for (const WorkerRecordPtr& worker : applied.workers) {
    PutWorker(worker);
  }
  for (const std::string& name : applied.removed_workers) {
    workers_.erase(name);
    on_worker_.erase(name);
  }
  for (const JobRecordPtr& job : applied.jobs) {
    PutJob(job);
  }
  for (const JobRecordPtr& job : applied.archived) {
    RemoveJob(job->job().id());
  }
  for (const DeletedJob& job : applied.deleted_jobs) {
    RemoveJob(job.id);
    requests_.erase({job.tenant, job.request_id});
  }
}

void ClusterState::PutWorker(const WorkerRecordPtr& record) { workers_[record->worker().name()] = record; }

void ClusterState::PutJob(const JobRecordPtr& record) {
  const v1::Job& job = record->job();
  if (const JobRecordPtr before = FindJob(job.id()); before != nullptr) {
    Unindex(*before);
  } else {
    order_of_.emplace(job.id(), job.submit_order());
    orders_named_[job.spec().name()].insert(job.submit_order());
    next_submit_order_ = std::max(next_submit_order_, job.submit_order() + 1);
    if (!record->request_id().empty()) {
      internal::AcceptedRequest& request = requests_[{job.tenant(), record->request_id()}];
      request.set_tenant(job.tenant());
      request.set_request_id(record->request_id());
      request.set_request_digest(record->request_digest());
      request.set_job(job.id());
    }
  }
  jobs_[job.submit_order()] = record;
  spec_bytes_ += job.spec().ByteSizeLong();
  CountUse(job, 1);
  if (job.state() == v1::Job::QUEUED) {
    queue_[KeyOf(job)] = record;
  } else if (IsActive(job.state())) {
    on_worker_[WorkerOf(job)].insert(job.submit_order());
  }
}

void ClusterState::Unindex(const internal::JobRecord& record) {
  const v1::Job& job = record.job();
  spec_bytes_ -= job.spec().ByteSizeLong();
  CountUse(job, -1);
  if (job.state() == v1::Job::QUEUED) {
    queue_.erase(KeyOf(job));
  } else if (IsActive(job.state())) {
    on_worker_[WorkerOf(job)].erase(job.submit_order());
  }
}

void ClusterState::CountUse(const v1::Job& job, int sign) {
  if (IsTerminal(job.state())) {
    return;
  }
  TenantUse& use = use_[job.tenant()];
  use.num_jobs += sign;
  use.spec_bytes += sign * static_cast<int64_t>(job.spec().ByteSizeLong());
  if (use.num_jobs == 0) {
    use_.erase(job.tenant());
  }
}

ClusterState::TenantUse ClusterState::UseOf(const std::string& tenant) const {
  const auto found = use_.find(tenant);
  return found == use_.end() ? TenantUse() : found->second;
}

void ClusterState::RemoveJob(const std::string& id) {
  const JobRecordPtr record = FindJob(id);
  if (record == nullptr) {
    return;
  }
  Unindex(*record);
  jobs_.erase(record->job().submit_order());
  order_of_.erase(id);
  const auto named = orders_named_.find(record->job().spec().name());
  named->second.erase(record->job().submit_order());
  if (named->second.empty()) {
    orders_named_.erase(named);
  }
}

JobRecordPtr ClusterState::FindJob(const std::string& id) const {
  const auto order = order_of_.find(id);
  return order == order_of_.end() ? nullptr : jobs_.at(order->second);
}

WorkerRecordPtr ClusterState::FindWorker(const std::string& name) const {
  const auto worker = workers_.find(name);
  return worker == workers_.end() ? nullptr : worker->second;
}

const internal::AcceptedRequest* ClusterState::FindRequest(const std::string& tenant,
                                                           const std::string& request_id) const {
  const auto found = requests_.find({tenant, request_id});
  return request_id.empty() || found == requests_.end() ? nullptr : &found->second;
}

std::vector<JobRecordPtr> ClusterState::JobsNamed(const std::string& name, size_t limit, const Tenants& tenants) const {
  std::vector<JobRecordPtr> jobs;
  if (const auto orders = orders_named_.find(name); orders != orders_named_.end()) {
    for (auto order = orders->second.rbegin(); order != orders->second.rend() && jobs.size() < limit; ++order) {
      if (const JobRecordPtr& job = jobs_.at(*order); tenants.Has(job->job().tenant())) {
        jobs.push_back(job);
      }
    }
  }
  return jobs;
}

std::vector<JobRecordPtr> ClusterState::JobsWithPrefix(const std::string& prefix, size_t limit,
                                                       const Tenants& tenants) const {
  std::vector<JobRecordPtr> jobs;
  for (auto entry = order_of_.lower_bound(prefix);
       entry != order_of_.end() && entry->first.starts_with(prefix) && jobs.size() < limit; ++entry) {
    if (const JobRecordPtr& job = jobs_.at(entry->second); tenants.Has(job->job().tenant())) {
      jobs.push_back(job);
    }
  }
  return jobs;
}

std::vector<JobRecordPtr> ClusterState::JobsOn(const std::string& worker) const {
  std::vector<JobRecordPtr> jobs;
  if (const auto orders = on_worker_.find(worker); orders != on_worker_.end()) {
    for (int64_t order : orders->second) {
      jobs.push_back(jobs_.at(order));
    }
  }
  return jobs;
}

bool ClusterState::DeviceIsHeld(const std::string& worker, const std::string& device) const {
  for (const JobRecordPtr& record : JobsOn(worker)) {
    const v1::Attempt& attempt = record->job().attempts(record->job().attempts_size() - 1);
    if (std::find(attempt.devices().begin(), attempt.devices().end(), device) != attempt.devices().end()) {
      return true;
    }
  }
  return false;
}

internal::Snapshot ClusterState::ToSnapshot(uint64_t index) const {
  internal::Snapshot snapshot = kept_;
  snapshot.set_index(index);
  snapshot.set_epoch(epoch_);
  snapshot.set_life(life_);
  snapshot.set_next_submit_order(next_submit_order_);
  snapshot.set_newest_time_unix_micros(newest_time_unix_micros_);
  snapshot.set_restored_in_life(restored_in_life_);
  snapshot.set_server_version(server_version_);
  snapshot.set_newest_server_version(newest_server_version_);
  for (const auto& [order, record] : jobs_) {
    *snapshot.add_jobs() = *record;
  }
  for (const auto& [name, record] : workers_) {
    *snapshot.add_workers() = *record;
  }
  for (const auto& [id, request] : requests_) {
    *snapshot.add_requests() = request;
  }
  return snapshot;
}

ClusterState ClusterState::FromSnapshot(const internal::Snapshot& snapshot) {
  ClusterState state;
  state.epoch_ = snapshot.epoch();
  state.life_ = snapshot.life();
  state.newest_time_unix_micros_ = snapshot.newest_time_unix_micros();
  state.restored_in_life_ = snapshot.restored_in_life();
  state.server_version_ = snapshot.server_version();
  state.newest_server_version_ = snapshot.newest_server_version();
  const google::protobuf::Reflection& reflection = *snapshot.GetReflection();
  reflection.MutableUnknownFields(&state.kept_)->MergeFrom(reflection.GetUnknownFields(snapshot));
  for (const internal::WorkerRecord& record : snapshot.workers()) {
    state.PutWorker(std::make_shared<internal::WorkerRecord>(record));
  }
  for (const internal::JobRecord& record : snapshot.jobs()) {
    auto job = std::make_shared<internal::JobRecord>(record);
    ConvertLossScaleOrders(job.get());
    job->mutable_job()->set_tenant(TenantOrDefault(job->job().tenant()));
    state.PutJob(std::move(job));
  }
  for (const internal::AcceptedRequest& request : snapshot.requests()) {
    internal::AcceptedRequest accepted = request;
    accepted.set_tenant(TenantOrDefault(request.tenant()));
    state.requests_[{accepted.tenant(), accepted.request_id()}] = std::move(accepted);
  }
  state.next_submit_order_ = snapshot.next_submit_order();
  return state;
}

}  // namespace ampd::server
