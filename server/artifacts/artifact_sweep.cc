// The thread of ArtifactStore, which deletes expired artifacts and the generated samples of deleted jobs.
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/timed_wait.h"
#include "server/artifacts/artifact_store.h"

namespace ampd::server {
namespace {

constexpr int kDeletedAtOnce = 100;  // Names deleted before other threads get access to the index.

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
      LogFailure(Sweep());
    }
    std::vector<std::string> jobs;
    {
      absl::MutexLock lock(&mutex_);
      AwaitFor(mutex_, absl::Condition(this, &ArtifactStore::HasWorkOrClosed), kSweepInterval);
      if (deleted_jobs_.empty() && closed_) {
        return;
      }
      jobs.swap(deleted_jobs_);
    }
    for (const std::string& job : jobs) {
      LogFailure(DeleteSamples(job));
    }
  }
}

void ArtifactStore::LogFailure(const absl::Status& status) const {
  if (!status.ok() && options_.on_sweep_failed) {
    options_.on_sweep_failed(status);
  }
}

absl::Status ArtifactStore::Sweep() {
  if (!options_.clock_is_steady || options_.clock_is_steady()) {
    DropOldPartials();
    AMPD_RETURN_IF_ERROR(DeleteUnusedUploads());
  }
  AMPD_RETURN_IF_ERROR(StoreUseTimes());
  std::vector<std::string> jobs;
  {
    absl::MutexLock index_lock(&index_mutex_);
    AMPD_ASSIGN_OR_RETURN(jobs, index_.Jobs());
  }
  for (const std::string& job : jobs) {
    if (!options_.job_exists(job)) {
      AMPD_RETURN_IF_ERROR(DeleteSamples(job));
    }
  }
  return absl::OkStatus();
}

absl::Status ArtifactStore::DeleteSamples(const std::string& job) {
  for (;;) {
    absl::MutexLock index_lock(&index_mutex_);
    AMPD_ASSIGN_OR_RETURN(const auto rows,
                          index_.List(job, Tenants::All(), std::numeric_limits<int64_t>::max(), kDeletedAtOnce));
    for (const auto& [number, row] : rows) {
      AMPD_RETURN_IF_ERROR(RemoveName(row.artifact));
    }
    if (rows.size() < kDeletedAtOnce) {
      return absl::OkStatus();
    }
  }
}

void ArtifactStore::DropOldPartials() {
  const absl::Time before = options_.clock->Now() - options_.partial_retention;
  std::vector<std::string> old;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, partial] : partials_) {
      if (!partial.is_busy && partial.write_time < before) {
        // The file is about to be unlinked. Neither its owner nor another upload may append to it any more.
        partial.owner = 0;
        partial.is_busy = true;
        old.push_back(key);
      }
    }
  }
  for (const std::string& key : old) {
    (void)unlink(PartialPathOf(key).c_str());
    EndFinish(key, /*is_over=*/true);
  }
}

// Deletes uploads that no request has named for the retention time. An upload that a live job names counts as used now.
absl::Status ArtifactStore::DeleteUnusedUploads() {
  const absl::Time now = options_.clock->Now();
  const absl::Time before = now - options_.retention;
  const std::map<std::string, std::string> live = options_.live_uploads();
  std::vector<std::string> unused;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, upload] : uploads_) {
      if (live.contains(key) || upload.num_holds > 0) {
        upload.use_time = now;
      } else if (options_.retention > absl::ZeroDuration() && upload.use_time < before) {
        unused.push_back(key);
      }
    }
  }
  for (const std::string& key : unused) {
    absl::MutexLock index_lock(&index_mutex_);
    AMPD_ASSIGN_OR_RETURN(const std::optional<ArtifactRow> row, index_.Find(key));
    const absl::Status deleted = row.has_value() ? DeleteUnlessUsed(*row, before) : absl::OkStatus();
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
    for (auto& [key, upload] : uploads_) {
      if (upload.use_time != upload.stored_use_time) {
        changed[key] = upload.use_time;
      }
    }
  }
  absl::MutexLock index_lock(&index_mutex_);
  for (const auto& [key, time] : changed) {
    AMPD_RETURN_IF_ERROR(index_.SetUseTime(key, time));
    absl::MutexLock lock(&mutex_);
    if (const auto found = uploads_.find(key); found != uploads_.end()) {
      found->second.stored_use_time = time;
    }
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
