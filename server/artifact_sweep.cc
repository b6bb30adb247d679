// What goes by itself.
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "server/artifact_store.h"

namespace ampd::server {
namespace {

constexpr int kDeletedAtOnce = 100;  // names, before others get at the index

}  // namespace

void ArtifactStore::Start() {
  thread_ = std::thread([this] { Work(); });
}

void ArtifactStore::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ArtifactStore::Work() {
  absl::Duration next_sweep = options_.clock->SinceBoot();
  for (;;) {
    const absl::Duration now = options_.clock->SinceBoot();
    if (now >= next_sweep) {
      next_sweep = now + kSweepInterval;
      Tell(Sweep());
    }
    std::vector<std::string> jobs;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &ArtifactStore::HasWorkOrClosed), kSweepInterval);
      if (deleted_jobs_.empty() && closed_) {
        return;
      }
      jobs.swap(deleted_jobs_);
    }
    for (const std::string& job : jobs) {
      Tell(DeleteSamples(job));
    }
  }
}

void ArtifactStore::Tell(const absl::Status& status) const {
  if (!status.ok() && options_.on_sweep_failed) {
    options_.on_sweep_failed(status);
  }
}

absl::Status ArtifactStore::Sweep() {
  DropOldPartials();
  AMPD_RETURN_IF_ERROR(DeleteUnusedUploads());
  AMPD_RETURN_IF_ERROR(StoreUseTimes());
  AMPD_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, IndexLease(this)->Jobs());
  for (const std::string& job : jobs) {
    if (!options_.job_exists(job)) {
      AMPD_RETURN_IF_ERROR(DeleteSamples(job));
    }
  }
  return absl::OkStatus();
}

absl::Status ArtifactStore::DeleteSamples(const std::string& job) {
  for (;;) {
    const IndexLease index(this);
    AMPD_ASSIGN_OR_RETURN(const auto rows, index->List(job, std::numeric_limits<int64_t>::max(), kDeletedAtOnce));
    for (const auto& [number, row] : rows) {
      AMPD_RETURN_IF_ERROR(RemoveName(index, row.artifact));
    }
    if (rows.size() < kDeletedAtOnce) {
      return absl::OkStatus();
    }
  }
}

void ArtifactStore::DropOldPartials() {
  const absl::Time before = options_.clock->Now() - options_.partial_retention;
  absl::MutexLock lock(&mutex_);
  // Unlinked with the lock held, so that no upload goes on with a file that has no name any more.
  std::erase_if(partials_, [&](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Partial& partial = entry.second;
    const bool is_old = !partial.is_busy && partial.write_time < before;
    if (is_old) {
      (void)unlink(PartialPathOf(entry.first).c_str());
      num_bytes_ -= partial.received_bytes;
    }
    return is_old;
  });
}

// What a live job names counts as asked for now.
absl::Status ArtifactStore::DeleteUnusedUploads() {
  const absl::Time now = options_.clock->Now();
  const absl::Time before = now - options_.retention;
  const std::map<std::string, std::string> live = options_.live_uploads();
  std::vector<std::string> unused;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [name, upload] : uploads_) {
      if (live.contains(name) || upload.num_holds > 0) {
        upload.use_time = now;
      } else if (upload.use_time < before) {
        unused.push_back(name);
      }
    }
  }
  for (const std::string& name : unused) {
    const absl::Status deleted = DeleteUnlessUsed(name, before);
    if (!deleted.ok() && !absl::IsFailedPrecondition(deleted) && !absl::IsNotFound(deleted)) {
      return deleted;
    }
  }
  return absl::OkStatus();
}

absl::Status ArtifactStore::StoreUseTimes() {
  std::map<std::string, absl::Time> changed;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [name, upload] : uploads_) {
      if (upload.use_time != upload.stored_use_time) {
        changed[name] = upload.use_time;
      }
    }
  }
  const IndexLease index(this);
  for (const auto& [name, time] : changed) {
    AMPD_RETURN_IF_ERROR(index->SetUseTime(name, time));
    absl::MutexLock lock(&mutex_);
    if (const auto found = uploads_.find(name); found != uploads_.end()) {
      found->second.stored_use_time = time;
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
