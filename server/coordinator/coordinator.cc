#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/admission/admission.h"
#include "server/ledger/ledger.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

using absl::StatusCode;
using v1::Job;

absl::Status CheckOrder(const v1::LossScaleOrder& order) {
  std::vector<FieldViolation> violations;
  const bool bad_scale =
      !std::isfinite(order.scale()) || order.scale() <= 0 || order.scale() > std::numeric_limits<float>::max();
  if (order.has_scale() && bad_scale) {
    violations.push_back(
        {"loss_scale_order.scale", absl::StrCat("is ", order.scale(), "; must be above 0 and finite")});
  }
  if (order.has_growth_interval() && order.growth_interval() < 1) {
    violations.push_back(
        {"loss_scale_order.growth_interval", absl::StrCat("is ", order.growth_interval(), "; must be at least 1")});
  }
  if (!order.has_scale() && !order.has_growth_interval()) {
    violations.push_back({"loss_scale_order", "must have scale or growth_interval"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Fills in the update from the request. INVALID_ARGUMENT names the fields that are wrong.
absl::Status ToChange(const v1::UpdateJobRequest& request, internal::ChangeJob* change) {
  change->set_job(request.id());
  change->set_etag(request.etag());
  if (request.update_mask().paths().empty()) {
    return InvalidFields({{"update_mask", "must name priority, loss_scale_order or sample_gradients"}});
  }
  for (const std::string& path : request.update_mask().paths()) {
    if (path == "priority") {
      if (request.priority() < -1000 || request.priority() > 1000) {
        return InvalidFields({{"priority", absl::StrCat("is ", request.priority(), "; must be -1000 to 1000")}});
      }
      change->set_priority(request.priority());
    } else if (path == "loss_scale_order") {
      AMPD_RETURN_IF_ERROR(CheckOrder(request.loss_scale_order()));
      *change->mutable_loss_scale_order() = request.loss_scale_order();
    } else if (path == "sample_gradients") {
      change->set_sample_gradients(request.sample_gradients());
    } else {
      return InvalidFields(
          {{"update_mask", absl::StrCat("has ", path, "; must be priority, loss_scale_order or sample_gradients")}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

Coordinator::Coordinator(Options options)
    : options_(std::move(options)), clock_watch_(options_.clock), liveness_(options_.lease, options_.lease_margin) {
  options_.ledger->SetListener([this](const Publication& publication) { OnPublished(publication); });
}

absl::Status Coordinator::Start() {
  const int64_t newest =
      options_.ledger->Read([](const ClusterState& state) { return state.newest_time_unix_micros(); });
  const auto leap = clock_watch_.CompareWith(newest == 0 ? absl::InfinitePast() : absl::FromUnixMicros(newest));
  if (leap.has_value() && options_.on_clock_leap) {
    options_.on_clock_leap(*leap);
  }
  internal::Update update = NewUpdate();
  update.mutable_start_life();
  AMPD_RETURN_IF_ERROR(options_.ledger->CommitAndWait(std::move(update)).status());
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = options_.clock->SinceBoot();
  options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    life_ = state.life();
    // An earlier life may have renewed any lease right before its end.
    for (const auto& [name, worker] : state.workers()) {
      if (!worker->lost()) {
        liveness_.Renew(name, now);
      }
    }
  });
  return absl::OkStatus();
}

internal::Update Coordinator::NewUpdate() const {
  internal::Update update;
  update.set_time_unix_micros(absl::ToUnixMicros(options_.clock->Now()));
  return update;
}

void Coordinator::CommitQuietly(Updates updates) {
  for (internal::Update& update : updates) {
    options_.ledger->Commit(std::move(update), [](const absl::StatusOr<Applied>&) {});
  }
}

void Coordinator::CommitForJob(internal::Update update, std::string id, JobDone done) {
  options_.ledger->Commit(std::move(update),
                          [this, id = std::move(id), done = std::move(done)](const absl::StatusOr<Applied>& applied) {
                            if (!applied.ok()) {
                              return done(applied.status());
                            }
                            done(applied->archived_job != nullptr ? JobOf(applied->archived_job)
                                                                  : GetJob(applied->job.empty() ? id : applied->job));
                          });
}

void Coordinator::OnPublished(const Publication& publication) {
  TellListeners(publication);
  std::set<std::string> workers;
  bool place = false;
  {
    absl::MutexLock lock(&mutex_);
    for (const Applied& applied : publication.applied) {
      place |= !applied.jobs.empty() || !applied.workers.empty();
      for (const std::string& name : applied.removed_workers) {
        sessions_.erase(name);
        liveness_.Forget(name);
      }
      for (const JobRecordPtr& record : applied.jobs) {
        if (record->job().attempts_size() > 0) {
          workers.insert(record->job().attempts().rbegin()->worker());
        }
      }
      for (const WorkerRecordPtr& record : applied.workers) {
        const std::string& name = record->worker().name();
        workers.insert(name);
        if (record->lost()) {
          liveness_.Forget(name);
          sessions_[name].losing = false;
        } else {
          liveness_.Watch(name, options_.clock->SinceBoot());
        }
      }
    }
  }
  if (place) {
    Place();
  }
  if (options_.on_directive_due) {
    for (const std::string& worker : workers) {
      options_.on_directive_due(worker);
    }
  }
}

void Coordinator::TellListeners(const Publication& publication) {
  for (const Applied& applied : publication.applied) {
    std::map<std::string, std::vector<v1::Event>> events;
    for (const JobEvent& event : applied.events) {
      events[event.job].push_back(event.event);
    }
    for (const auto& [job, of_job] : events) {
      if (options_.on_events) {
        options_.on_events(job, of_job);
      }
    }
    for (const JobRecordPtr& record : applied.jobs) {
      if (options_.on_job) {
        options_.on_job(JobOf(record));
      }
      for (const v1::Event& event : events[record->job().id()]) {
        const bool is_move = event.kind() == v1::Event::CREATED || event.kind() == v1::Event::STATE_CHANGED;
        if (is_move && options_.on_job_moved) {
          options_.on_job_moved(record->job(), event);
        }
      }
    }
    for (const WorkerRecordPtr& record : applied.workers) {
      if (options_.on_worker) {
        options_.on_worker(*record);
      }
    }
    for (const std::string& job : applied.deleted_histories) {
      if (options_.on_history_deleted) {
        options_.on_history_deleted(job);
      }
    }
    for (const DeletedJob& job : applied.deleted_jobs) {
      if (options_.on_job_deleted) {
        options_.on_job_deleted(job.id);
      }
    }
  }
}

bool Coordinator::IsHot(const std::string& id) const {
  return options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(id) != nullptr; });
}

void Coordinator::CommitDesired(const std::string& id, Job::Desired desired, const std::string& etag, JobDone done) {
  if (const absl::Status there = FindRecord(id).status(); !there.ok()) {
    return done(there);
  }
  internal::Update update = NewUpdate();
  update.mutable_set_desired()->set_job(id);
  update.mutable_set_desired()->set_desired(desired);
  update.mutable_set_desired()->set_etag(etag);
  CommitForJob(std::move(update), id, std::move(done));
}

void Coordinator::CancelJob(const v1::CancelJobRequest& request, JobDone done) {
  CommitDesired(request.id(), Job::CANCEL, request.etag(), std::move(done));
}

void Coordinator::PauseJob(const v1::PauseJobRequest& request, JobDone done) {
  CommitDesired(request.id(), Job::PAUSE, request.etag(), std::move(done));
}

void Coordinator::ResumeJob(const v1::ResumeJobRequest& request, JobDone done) {
  CommitDesired(request.id(), Job::RUN, request.etag(), std::move(done));
}

void Coordinator::UpdateJob(const v1::UpdateJobRequest& request, JobDone done) {
  internal::Update update = NewUpdate();
  if (const absl::Status status = ToChange(request, update.mutable_change_job()); !status.ok()) {
    return done(status);
  }
  const absl::StatusOr<JobRecordPtr> record = FindRecord(request.id());
  if (!record.ok()) {
    return done(record.status());
  }
  // For a finished job, the commit returns WRONG_STATE.
  if (update.change_job().has_loss_scale_order() && !IsTerminal((*record)->job().state())) {
    const absl::Status status = AdmitOrder(update.change_job().loss_scale_order(), **record);
    if (!status.ok()) {
      return done(status);
    }
  }
  CommitForJob(std::move(update), request.id(), std::move(done));
}

void Coordinator::DeleteJob(const v1::DeleteJobRequest& request, Done done) {
  if (const absl::Status there = FindRecord(request.id()).status(); !there.ok()) {
    return done(there);
  }
  internal::Update update = NewUpdate();
  update.mutable_delete_job()->set_job(request.id());
  options_.ledger->Commit(std::move(update),
                          [done = std::move(done)](const absl::StatusOr<Applied>& applied) { done(applied.status()); });
}

void Coordinator::DeleteCheckpoint(const v1::DeleteCheckpointRequest& request, Done done) {
  if (const absl::Status there = FindRecord(request.id()).status(); !there.ok()) {
    return done(there);
  }
  internal::Update update = NewUpdate();
  update.mutable_drop_checkpoint()->set_job(request.id());
  update.mutable_drop_checkpoint()->set_attempt(request.attempt());
  update.mutable_drop_checkpoint()->set_step(request.step());
  options_.ledger->Commit(std::move(update),
                          [done = std::move(done)](const absl::StatusOr<Applied>& applied) { done(applied.status()); });
}

}  // namespace ampd::server
