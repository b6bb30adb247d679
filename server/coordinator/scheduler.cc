#include "server/coordinator/scheduler.h"

#include <utility>
#include <vector>

#include "server/coordinator/updates.h"
#include "server/state/job_rules.h"
#include "server/state/pinned_loss_scale.h"

namespace ampd::server {
namespace {

constexpr int kTokenCharacters = 26;  // 130 random bits.

void FillAssignment(const Placement& placement, std::string token, internal::AssignAttempt* assign) {
  assign->set_job(placement.job->job().id());
  assign->set_attempt(NextAttemptNumber(*placement.job));
  assign->set_job_version(placement.job->version());
  assign->set_token(std::move(token));
  assign->set_worker(placement.worker);
  assign->add_devices(placement.device);
  assign->set_precision(placement.precision.preset);
  assign->set_precision_reason(placement.precision.reason);
  assign->set_emulated(placement.precision.emulated);
  *assign->mutable_loss_scale() = LossScaleFor(*placement.job, placement.precision.preset);
  if (placement.start_from.has_value()) {
    *assign->mutable_start_from() = *placement.start_from;
  }
}

}  // namespace

void Scheduler::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void Scheduler::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Scheduler::Loop() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Scheduler::HasWork));
      if (stopping_) {
        return;
      }
      is_awake_ = false;
    }
    RunOnce();
  }
}

void Scheduler::LimitMarks() {
  if (marks_.all || marks_.jobs.size() + marks_.workers.size() + marks_.settled.size() > kMaxMarks) {
    marks_ = Marks();
    marks_.all = true;
  }
}

void Scheduler::OnPublished(const Publication& publication) {
  absl::MutexLock lock(&mutex_);
  for (const Applied& applied : publication.applied) {
    for (const JobRecordPtr& record : applied.jobs) {
      marks_.jobs.insert(record->job().id());
    }
    for (const JobRecordPtr& record : applied.archived) {
      marks_.jobs.insert(record->job().id());
    }
    for (const DeletedJob& job : applied.deleted_jobs) {
      marks_.jobs.insert(job.id);
    }
    for (const WorkerRecordPtr& record : applied.workers) {
      marks_.workers.insert(record->worker().name());
    }
    marks_.workers.insert(applied.removed_workers.begin(), applied.removed_workers.end());
  }
  LimitMarks();
  is_awake_ = true;
}

void Scheduler::OnSessionChanged(const std::string& worker) {
  absl::MutexLock lock(&mutex_);
  marks_.workers.insert(worker);
  LimitMarks();
  is_awake_ = true;
}

void Scheduler::Wake() {
  absl::MutexLock lock(&mutex_);
  is_awake_ = true;
}

// Marks that the job's assignment was committed or refused. Does not wake the scheduler. After a commit, the published
// record wakes it. After a refusal, for example because the ledger is full, waking it at once would retry the placement
// in a tight loop.
void Scheduler::OnSettled(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  marks_.settled.insert(job);
  LimitMarks();
}

Scheduler::Records Scheduler::ReadMarked(const Marks& marks) const {
  Records records;
  options_.ledger->Read([&](const ClusterState& state) {
    for (const auto* jobs : {&marks.jobs, &marks.settled}) {
      for (const std::string& job : *jobs) {
        records.jobs.emplace_back(job, state.FindJob(job));
      }
    }
    for (const std::string& worker : marks.workers) {
      records.workers.emplace_back(worker, state.FindWorker(worker));
    }
  });
  return records;
}

Scheduler::Records Scheduler::ReadAll() const {
  Records records;
  options_.ledger->Read([&](const ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      records.jobs.emplace_back(record->job().id(), record);
    }
    for (const auto& [name, record] : state.workers()) {
      records.workers.emplace_back(name, record);
    }
  });
  return records;
}

void Scheduler::Update(const Marks& marks) {
  if (marks.all) {
    table_ = PlacementTable();
  }
  for (const std::string& job : marks.settled) {
    table_.Settle(job);
  }
  const Records records = marks.all ? ReadAll() : ReadMarked(marks);
  const absl::Duration now = options_.clock->SinceBoot();
  for (const auto& [id, record] : records.jobs) {
    table_.PutJob(id, record);
  }
  for (const auto& [name, record] : records.workers) {
    table_.PutWorker(name, record);
    table_.PutFacts(name, options_.sessions->FindFacts(name), now);
  }
}

void Scheduler::Commit(const Placement& placement) {
  internal::Update update = NewUpdate(options_.clock->Now());
  FillAssignment(placement, RandomId(*options_.random, kTokenCharacters), update.mutable_assign_attempt());
  options_.ledger->Commit(std::move(update),
                          [this, job = placement.job->job().id()](const absl::StatusOr<Applied>&) { OnSettled(job); });
}

size_t Scheduler::RunOnce() {
  const absl::Duration start = options_.clock->SinceBoot();
  if (start < hold_until_) {
    return 0;  // The marks stay set, and the next tick wakes the scheduler again.
  }
  Marks marks;
  {
    absl::MutexLock lock(&mutex_);
    marks = std::exchange(marks_, Marks());
  }
  Update(marks);
  const std::vector<Placement> placements =
      table_.Place(absl::ToUnixMicros(options_.clock->Now()), options_.clock->SinceBoot());
  options_.listener->OnPlacement(table_.num_waiting() + placements.size(), placements.size(),
                                 options_.clock->SinceBoot() - start);
  for (const Placement& placement : placements) {
    Commit(placement);
  }
  return placements.size();
}

}  // namespace ampd::server
