// Periodic actions: placement, lost workers, deadlines, expired waits, retention.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/state/job_rules.h"
#include "server/state/pinned_loss_scale.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;
using v1::Job;

constexpr absl::Duration kSweepInterval = absl::Seconds(1);
constexpr absl::Duration kLeastSeenLost = absl::Hours(1);
constexpr int kTokenCharacters = 26;  // 130 random bits.
constexpr int kMaxArchivedAtOnce = 500;

int64_t ToMicros(const google::protobuf::Timestamp& time) { return TimeUtil::TimestampToMicroseconds(time); }

bool MayExpire(const Job& job) {
  return job.spec().has_deadline() && job.has_start_time() && !IsTerminal(job.state()) &&
         job.state() != Job::CANCELLING;
}

}  // namespace

void Coordinator::Tick() {
  if (const std::optional<absl::Duration> leap = clock_watch_.Look(); leap.has_value() && options_.on_clock_leap) {
    options_.on_clock_leap(*leap);
  }
  LoseSilentWorkers();
  bool sweep = false;
  bool remove = false;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Duration now = options_.clock->SinceBoot();
    sweep = now >= next_sweep_;
    remove = now >= next_deletion_;
    next_sweep_ = sweep ? now + kSweepInterval : next_sweep_;
    next_deletion_ = remove ? now + (options_.retention.has_any() ? LookInterval(options_.retention) : absl::Minutes(1))
                            : next_deletion_;
  }
  if (sweep) {
    Sweep();
  }
  if (remove) {
    DeleteExpired();
  }
  Place();
}

LiveWorkers Coordinator::Live() const {
  LiveWorkers live;
  const absl::Duration now = options_.clock->SinceBoot();
  for (const auto& [name, session] : sessions_) {
    if (session.report.sequence() == 0 || session.losing || now - session.report_since_boot > options_.lease) {
      continue;
    }
    WorkerFacts& facts = live[name];
    facts.is_stopping = session.report.stopping();
    for (const v1::Device& device : session.report.devices()) {
      facts.free_bytes[device.id()] = device.memory_free_bytes();
    }
  }
  return live;
}

void Coordinator::Place() {
  const int64_t now = absl::ToUnixMicros(options_.clock->Now());
  const absl::Duration start = options_.clock->SinceBoot();
  LiveWorkers live;
  {
    absl::MutexLock lock(&mutex_);
    live = Live();
  }
  size_t num_waiting = 0;
  const std::vector<Placement> placements = options_.ledger->Read([&](const ClusterState& state) {
    num_waiting = state.queue().size();
    return PlaceJobs(state, live, now);
  });
  if (options_.on_placement) {
    options_.on_placement(num_waiting, placements.size(), options_.clock->SinceBoot() - start);
  }
  Updates updates;
  for (const Placement& placement : placements) {
    internal::AssignAttempt& assign = *updates.emplace_back(NewUpdate()).mutable_assign_attempt();
    assign.set_job(placement.job->job().id());
    assign.set_attempt(placement.job->job().num_attempts() + 1);
    assign.set_token(RandomId(*options_.random, kTokenCharacters));
    assign.set_worker(placement.worker);
    assign.add_devices(placement.device);
    assign.set_precision(placement.precision.preset);
    assign.set_precision_reason(placement.precision.reason);
    assign.set_emulated(placement.precision.emulated);
    *assign.mutable_loss_scale() = LossScaleFor(*placement.job, placement.precision.preset);
    if (placement.start_from.has_value()) {
      *assign.mutable_start_from() = *placement.start_from;
    }
  }
  CommitQuietly(std::move(updates));
}

void Coordinator::LoseSilentWorkers() {
  std::vector<std::string> silent;
  {
    absl::MutexLock lock(&mutex_);
    for (const std::string& worker : liveness_.Silent(options_.clock->SinceBoot())) {
      Session& session = sessions_[worker];
      if (!session.losing) {
        // From now on no report renews its lease, so the lease has run out when the loss is on disk.
        session.losing = true;
        silent.push_back(worker);
      }
    }
  }
  for (const std::string& worker : silent) {
    internal::Update update = NewUpdate();
    update.mutable_lose_worker()->set_worker(worker);
    options_.ledger->Commit(std::move(update), [this, worker](const absl::StatusOr<Applied>& applied) {
      if (!applied.ok() || !applied->changed) {
        absl::MutexLock lock(&mutex_);
        sessions_[worker].losing = false;
      }
    });
  }
}

void Coordinator::Sweep() {
  const int64_t now = absl::ToUnixMicros(options_.clock->Now());
  const int64_t archive_before = now - absl::ToInt64Microseconds(options_.archive_after);
  Updates updates;
  {
    absl::MutexLock lock(&mutex_);
    options_.ledger->Read([&](const ClusterState& state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      internal::ArchiveJobs archive;
      for (const auto& [order, record] : state.jobs()) {
        const Job& job = record->job();
        if (options_.archive_after > absl::ZeroDuration() && IsTerminal(job.state()) &&
            ToMicros(job.end_time()) < archive_before && archive.jobs_size() < kMaxArchivedAtOnce) {
          archive.add_jobs(job.id());
        }
      }
      if (archive.jobs_size() > 0) {
        *updates.emplace_back(NewUpdate()).mutable_archive_jobs() = std::move(archive);
      }
      ExpireDeadlines(state, &updates);
      StartOverStranded(state, &updates);
      RemoveExpiredWorkers(state, &updates);
    });
  }
  CommitQuietly(std::move(updates));
}

// Uses the wall clock only once, when this life first sees the job. Setting the clock later makes no job expire early
// or late.
void Coordinator::ExpireDeadlines(const ClusterState& state, Updates* updates) {
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

void Coordinator::StartOverStranded(const ClusterState& state, Updates* updates) {
  std::map<std::string, absl::Duration> stranded;
  const absl::Duration now = options_.clock->SinceBoot();
  for (const auto& [key, record] : state.queue()) {
    const std::optional<v1::Checkpoint> start = StartPoint(*record);
    if (!start.has_value() || !start->local() || !GoesOn(record->job().spec(), *start)) {
      continue;
    }
    const WorkerRecordPtr holder = state.FindWorker(start->worker());
    const bool is_replaced = holder != nullptr && !Reaches(*holder, *start);
    if (holder != nullptr && !holder->lost() && !holder->worker().drained() && !is_replaced) {
      continue;
    }
    const std::string& id = record->job().id();
    const auto before = stranded_since_.find(id);
    const absl::Duration since = before == stranded_since_.end() ? now : before->second;
    stranded[id] = since;
    if (now - since > options_.local_checkpoint_wait) {
      internal::StartOver& change = *updates->emplace_back(NewUpdate()).mutable_start_over();
      change.set_job(id);
      change.set_message(absl::StrCat("worker ", start->worker(), ", which holds the checkpoint at step ",
                                      start->step(), ", did not come back",
                                      is_replaced ? ": the name is another agent's now" : ""));
    }
  }
  stranded_since_ = std::move(stranded);
}

// A clock that leapt forward must not remove workers that were lost a moment ago. They must also have been lost for the
// retention, but at most for an hour, by the boot clock, which does not leap.
void Coordinator::RemoveExpiredWorkers(const ClusterState& state, Updates* updates) {
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
