#include "server/state_follower.h"

#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/state/job_rules.h"

namespace ampd::server {
namespace {

constexpr int kMaxSweptJobs = 1000;

}  // namespace

absl::Status StateFollower::RecoverState(const Ledger& ledger) {
  std::vector<JobPtr> live;
  ledger.Read([&](const ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      if (!IsTerminal(record->job().state())) {
        live.push_back(JobOf(record));
      }
    }
    for (const auto& [name, record] : state.workers()) {
      changes_.Know(*record);
    }
  });
  for (const JobPtr& job : live) {
    options_.table->Put(job, absl::Now());
    if (job->num_attempts() > 0) {
      AMPD_RETURN_IF_ERROR(options_.progress->Restore(options_.store, job->id()));
    }
  }
  return absl::OkStatus();
}

void StateFollower::SweepHistories(const JobQueries& queries, absl::Duration retention) {
  absl::StatusOr<std::vector<std::string>> idle = options_.store->Read([&](MetricReader& reader) {
    return reader.ListJobsIdleSince(absl::Now() - retention - absl::Hours(1), kMaxSweptJobs);
  });
  if (!idle.ok()) {
    Log(spdlog::level::warn, "the sweep of the metric store failed",
        {{"detail", std::string(idle.status().message())}});
    return;
  }
  for (const std::string& job : *idle) {
    const absl::StatusOr<JobPtr> found = queries.GetJob(job);
    if (absl::IsNotFound(found.status())) {
      ForgetJob(job, "");
    } else if (found.ok() && (*found)->history_deleted()) {
      DeleteHistory(job, (*found)->traceparent());
    }
  }
}

void StateFollower::OnJob(const JobPtr& job) {
  options_.page->Count([this, &job] {
    const JobPtr before = options_.table->Put(job, absl::Now());
    options_.metrics->JobChanged(before.get(), *job);
  });
  if (options_.hub->IsWatched(job->id())) {
    // The job's events are already queued, or are in this group. The record is queued behind the events, so that
    // watchers receive the record after the events.
    const absl::Status queued = options_.store->AppendServerEvents(
        job->id(), {}, [hub = options_.hub, job](absl::Status) { hub->PublishJob(job); });
    if (!queued.ok()) {
      options_.hub->PublishJob(job);
    }
  }
}

void StateFollower::OnEvents(const std::string& job, const std::vector<v1::Event>& events) {
  const auto log = [job, table = options_.table](const absl::Status& status) {
    if (!status.ok()) {
      LogFields fields = {{"job_id", job}, {"detail", std::string(status.message())}};
      AddTrace(table->TraceparentOf(job), &fields);
      Log(spdlog::level::err, "events were not stored", fields);
    }
  };
  log(options_.store->AppendServerEvents(job, events, log));
}

void StateFollower::OnJobDeleted(const DeletedJob& job) {
  changes_.JobDeleted(job.id, job.traceparent);
  ForgetJob(job.id, job.traceparent);
}

void StateFollower::OnHistoryDeleted(const DeletedHistory& history) {
  changes_.HistoryDeleted(history.job, history.traceparent);
  DeleteHistory(history.job, history.traceparent);
}

void StateFollower::ForgetJob(const std::string& job, const std::string& traceparent) {
  options_.table->Remove(job);
  options_.progress->Forget(job);
  DeleteHistory(job, traceparent);
}

void StateFollower::DeleteHistory(const std::string& job, const std::string& traceparent) {
  options_.artifacts->DeleteJob(job);
  const absl::Status queued = options_.store->DeleteJob(job, [](const absl::Status&) {});
  if (!queued.ok()) {
    LogFields fields = {{"job_id", job}, {"detail", std::string(queued.message())}};
    AddTrace(traceparent, &fields);
    Log(spdlog::level::warn, "the history of a job stays until the next sweep", fields);
  }
}

void StateFollower::OnWorkerTrouble(const std::string& worker, const std::string& line) {
  Log(spdlog::level::warn, line, {{"worker", worker}});
}

void StateFollower::OnPlacement(size_t num_waiting, size_t num_placed, absl::Duration time) {
  options_.metrics->SchedulerCycle(num_waiting, num_placed, time);
}

}  // namespace ampd::server
