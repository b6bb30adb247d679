#include "server/coordinator/expiry.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "server/state/job_rules.h"
#include "server/state/placement.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;
using v1::Job;

constexpr absl::Duration kSweepInterval = absl::Seconds(1);
constexpr absl::Duration kLeastSeenLost = absl::Hours(1);
constexpr int kMaxArchivedAtOnce = 500;

int64_t ToMicros(const google::protobuf::Timestamp& time) { return TimeUtil::TimestampToMicroseconds(time); }

bool MayExpire(const Job& job) {
  return job.spec().has_deadline() && job.has_start_time() && !IsTerminal(job.state()) &&
         job.state() != Job::CANCELLING;
}

}  // namespace

void Expiry::CheckClock() {
  const int64_t newest =
      options_.ledger->Read([](const ClusterState& state) { return state.newest_time_unix_micros(); });
  const auto leap = clock_watch_.CompareWith(newest == 0 ? absl::InfinitePast() : absl::FromUnixMicros(newest));
  if (leap.has_value()) {
    options_.listener->OnClockLeap(*leap);
  }
}

void Expiry::Tick() {
  if (const std::optional<absl::Duration> leap = clock_watch_.Look(); leap.has_value()) {
    options_.listener->OnClockLeap(*leap);
  }
  ExpireWorkers();
  const absl::Duration now = options_.clock->SinceBoot();
  if (now >= next_sweep_) {
    next_sweep_ = now + kSweepInterval;
    Sweep();
  }
  if (now >= next_deletion_) {
    next_deletion_ = now + (options_.retention.has_any() ? LookInterval(options_.retention) : absl::Minutes(1));
    DeleteExpired();
  }
}

void Expiry::ExpireWorkers() {
  for (const std::string& worker : options_.sessions->BeginLosses()) {
    internal::Update update = NewUpdate();
    update.mutable_lose_worker()->set_worker(worker);
    options_.ledger->Commit(std::move(update), [this, worker](const absl::StatusOr<Applied>& applied) {
      if (!applied.ok() || !applied->changed) {
        options_.sessions->AbandonLoss(worker, /*is_registered=*/!absl::IsNotFound(applied.status()));
      }
    });
  }
}

void Expiry::Sweep() {
  Updates updates;
  options_.ledger->Read([&](const ClusterState& state) {
    ArchiveEndedJobs(state, &updates);
    ExpireDeadlines(state, &updates);
    RestartUnreachableJobs(state, &updates);
    RemoveLostWorkers(state, &updates);
  });
  CommitAll(options_.ledger, std::move(updates));
}

void Expiry::ArchiveEndedJobs(const ClusterState& state, Updates* updates) const {
  if (options_.archive_after <= absl::ZeroDuration()) {
    return;
  }
  const int64_t before = absl::ToUnixMicros(options_.clock->Now()) - absl::ToInt64Microseconds(options_.archive_after);
  internal::ArchiveJobs archive;
  for (const auto& [order, record] : state.jobs()) {
    const Job& job = record->job();
    if (archive.jobs_size() < kMaxArchivedAtOnce && IsTerminal(job.state()) && ToMicros(job.end_time()) < before) {
      archive.add_jobs(job.id());
    }
  }
  if (archive.jobs_size() > 0) {
    *updates->emplace_back(NewUpdate()).mutable_archive_jobs() = std::move(archive);
  }
}

// Ends the jobs whose deadline has passed. The wall clock counts only when this run of the server first sees a job.
// After that, the time since boot counts, so setting the wall clock later changes no deadline.
void Expiry::ExpireDeadlines(const ClusterState& state, Updates* updates) {
  std::map<std::string, absl::Duration> started;
  const absl::Duration now = options_.clock->SinceBoot();
  for (const auto& [order, record] : state.jobs()) {
    const Job& job = record->job();
    if (!MayExpire(job)) {
      continue;
    }
    const auto known = started_since_boot_.find(job.id());
    const absl::Duration before = absl::ToUnixMicros(options_.clock->Now()) > ToMicros(job.start_time())
                                      ? options_.clock->Now() - absl::FromUnixMicros(ToMicros(job.start_time()))
                                      : absl::ZeroDuration();
    started[job.id()] = known == started_since_boot_.end() ? now - before : known->second;
    if (now - started[job.id()] > absl::Microseconds(TimeUtil::DurationToMicroseconds(job.spec().deadline()))) {
      updates->emplace_back(NewUpdate()).mutable_expire_deadline()->set_job(job.id());
    }
  }
  started_since_boot_ = std::move(started);
}

void Expiry::RestartUnreachableJobs(const ClusterState& state, Updates* updates) {
  std::map<std::string, absl::Duration> unreachable;
  const absl::Duration now = options_.clock->SinceBoot();
  for (const auto& [key, record] : state.queue()) {
    const std::optional<v1::Checkpoint> start = StartPoint(*record);
    if (!start.has_value() || !start->local() || !ResumesTraining(record->job().spec(), *start)) {
      continue;
    }
    const WorkerRecordPtr holder = state.FindWorker(start->worker());
    const bool is_replaced = holder != nullptr && !Reaches(*holder, *start);
    if (holder != nullptr && !holder->lost() && !holder->worker().drained() && !is_replaced) {
      continue;
    }
    const std::string& id = record->job().id();
    const auto before = unreachable_since_.find(id);
    const absl::Duration since = before == unreachable_since_.end() ? now : before->second;
    unreachable[id] = since;
    if (now - since > options_.local_checkpoint_wait) {
      internal::StartOver& change = *updates->emplace_back(NewUpdate()).mutable_start_over();
      change.set_job(id);
      change.set_message(absl::StrCat("worker ", start->worker(), ", which holds the checkpoint at step ",
                                      start->step(), ", did not come back",
                                      is_replaced ? ": the name is another agent's now" : ""));
    }
  }
  unreachable_since_ = std::move(unreachable);
}

// Removes the workers that were lost at least worker_retention ago by the wall clock. The wall clock may leap forward,
// and a worker that was lost a moment ago must then stay. Therefore the worker must also have been lost for
// worker_retention or one hour, whichever is shorter, in time since boot, which does not leap.
void Expiry::RemoveLostWorkers(const ClusterState& state, Updates* updates) {
  if (options_.worker_retention <= absl::ZeroDuration()) {
    return;
  }
  const absl::Duration now = options_.clock->SinceBoot();
  const int64_t before = absl::ToUnixMicros(options_.clock->Now() - options_.worker_retention);
  const absl::Duration at_least = std::min(options_.worker_retention, kLeastSeenLost);
  std::map<std::string, absl::Duration> lost;
  for (const auto& [name, record] : state.workers()) {
    if (!record->lost()) {
      continue;
    }
    const auto since = lost_since_.find(name);
    lost[name] = since == lost_since_.end() ? now : since->second;
    if (record->lost_unix_micros() < before && now - lost[name] >= at_least) {
      updates->emplace_back(NewUpdate()).mutable_remove_worker()->set_worker(name);
    }
  }
  lost_since_ = std::move(lost);
}

}  // namespace ampd::server
