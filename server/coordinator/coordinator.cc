#include "server/coordinator/coordinator.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status_macros.h"

namespace ampd::server {
namespace {

bool IsMove(const v1::Event& event) {
  return event.kind() == v1::Event::CREATED || event.kind() == v1::Event::STATE_CHANGED;
}

void NotifyOfJobs(const Applied& applied, StateListener* listener) {
  std::map<std::string, std::vector<v1::Event>> events;
  for (const JobEvent& event : applied.events) {
    events[event.job].push_back(event.event);
  }
  for (const auto& [job, of_job] : events) {
    listener->OnEvents(job, of_job);
  }
  for (const JobRecordPtr& record : applied.jobs) {
    listener->OnJob(JobOf(record));
    for (const v1::Event& event : events[record->job().id()]) {
      if (IsMove(event)) {
        listener->OnJobMoved(*record, event);
      }
    }
  }
}

void Notify(const Applied& applied, StateListener* listener) {
  NotifyOfJobs(applied, listener);
  for (const WorkerRecordPtr& record : applied.workers) {
    listener->OnWorker(*record);
  }
  for (const std::string& worker : applied.removed_workers) {
    listener->OnWorkerRemoved(worker);
  }
  for (const DeletedHistory& history : applied.deleted_histories) {
    listener->OnHistoryDeleted(history);
  }
  for (const DeletedJob& job : applied.deleted_jobs) {
    listener->OnJobDeleted(job);
  }
}

}  // namespace

Coordinator::Coordinator(const Options& options)
    : ledger_(options.ledger),
      clock_(options.clock),
      lease_(options.lease),
      lease_margin_(options.lease_margin),
      listener_(options.listener),
      models_(options.models),
      sessions_({.ledger = options.ledger,
                 .clock = options.clock,
                 .listener = options.listener,
                 .on_facts_changed = [this](const std::string& worker) { scheduler_.OnSessionChanged(worker); },
                 .lease = options.lease,
                 .lease_margin = options.lease_margin,
                 .suspend_limit = options.suspend_limit}),
      queries_(
          {.ledger = options.ledger, .clock = options.clock, .sessions = &sessions_, .retention = options.retention}),
      commands_({.ledger = options.ledger,
                 .clock = options.clock,
                 .random = options.random,
                 .queries = &queries_,
                 .models = &models_,
                 .max_jobs_in_hot_state = options.max_jobs_in_hot_state,
                 .max_spec_bytes_in_hot_state = options.max_spec_bytes_in_hot_state}),
      scheduler_({.ledger = options.ledger,
                  .clock = options.clock,
                  .random = options.random,
                  .sessions = &sessions_,
                  .listener = options.listener}),
      expiry_({.ledger = options.ledger,
               .clock = options.clock,
               .sessions = &sessions_,
               .listener = options.listener,
               .local_checkpoint_wait = options.local_checkpoint_wait,
               .archive_after = options.archive_after,
               .retention = options.retention,
               .worker_retention = options.worker_retention}) {
  options.ledger->SetListener([this](const Publication& publication) { OnPublished(publication); });
}

absl::Status Coordinator::Start() {
  expiry_.CheckClock();
  AMPD_RETURN_IF_ERROR(sessions_.Start());
  // Workers may still run attempts that began after the backup was made and that this server does not know. They end
  // when their worker reports here, or when the lease that the earlier server gave them has run out.
  if (ledger_->Read([](const ClusterState& state) { return state.is_first_life_after_restore(); })) {
    scheduler_.HoldUntil(clock_->SinceBoot() + lease_ + lease_margin_);
  }
  return absl::OkStatus();
}

void Coordinator::Tick() {
  expiry_.Tick();
  scheduler_.Wake();
}

void Coordinator::OnPublished(const Publication& publication) {
  for (const Applied& applied : publication.applied) {
    Notify(applied, listener_);
  }
  const std::set<std::string> changed_workers = sessions_.OnPublished(publication);
  scheduler_.OnPublished(publication);
  for (const std::string& worker : changed_workers) {
    listener_->OnDirectiveDue(worker);
  }
}

}  // namespace ampd::server
