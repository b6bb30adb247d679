#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "base/api/tenants.h"
#include "base/clock.h"
#include "server/coordinator/worker_sessions.h"
#include "server/ledger/ledger.h"
#include "server/state/cluster_state.h"
#include "server/state/placement.h"
#include "server/state/retention.h"

namespace ampd::server {

// Parses a record of the history table. DATA_LOSS (STORE_CORRUPT) if the record is damaged.
absl::StatusOr<JobRecordPtr> ParseJobRecord(const std::string& bytes);

// Returns the error for a job that does not exist: NOT_FOUND, reason JOB_NOT_FOUND.
absl::Status JobNotFound(const std::string& job);

// Answers questions about jobs from the published records and the history table. Changes nothing. A question about a
// job that is not in memory may block on the disk; the others are quick. Thread-safe.
class JobQueries {
 public:
  struct Options {
    const Ledger* ledger = nullptr;
    const Clock* clock = nullptr;
    const WorkerSessions* sessions = nullptr;
    RetentionPolicy retention;
    // The most records of the history table that ListJobs reads for one page, and the most that it reads to count all
    // matches. This many take a few hundred milliseconds.
    int64_t max_history_records = 20'000;
  };
  explicit JobQueries(const Options& options) : options_(options) {}

  // Whether the job's record is in memory. Does not read the disk.
  bool IsInMemory(const std::string& id) const;
  // Returns the job's record from memory or the history table. NOT_FOUND (JOB_NOT_FOUND) if there is none; DATA_LOSS if
  // the history table is damaged.
  absl::StatusOr<JobRecordPtr> FindRecord(const std::string& id) const;
  // Returns the job without `progress`, which server/telemetry adds. Errors: those of FindRecord.
  absl::StatusOr<JobPtr> GetJob(const std::string& id) const;

  // These functions answer the calls of JobService with the same names, which job_service.proto documents. `visible`:
  // the tenants whose jobs the caller may see. For the caller, the other jobs do not exist.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                const Tenants& visible = Tenants::All()) const;
  absl::StatusOr<v1::FindJobsResponse> FindJobs(const v1::FindJobsRequest& request,
                                                const Tenants& visible = Tenants::All()) const;
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const v1::ExplainJobRequest& request) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) const;

  // A recorded checkpoint, and a worker that can read its files now. This is the worker that saved the checkpoint or,
  // if that worker cannot read them, any other worker that can.
  struct CheckpointPlace {
    v1::Checkpoint checkpoint;
    std::string worker;  // Empty: no connected worker can reach the files.
  };
  // Finds the checkpoint and a worker that can read its files. Errors: those of FindRecord, and NOT_FOUND
  // (CHECKPOINT_NOT_FOUND).
  absl::StatusOr<CheckpointPlace> FindCheckpoint(const std::string& job, int32_t attempt, int64_t step) const;

  // Returns the workers and devices on which a job of the tenant with this spec could run now
  // (server::MatchingWorkers).
  std::vector<v1::Worker> WorkersFor(const std::string& tenant, const v1::JobSpec& spec) const;
  // An upload, identified by its tenant and SHA-256, and a job of that tenant that uses the upload.
  struct LiveArtifact {
    std::string tenant;
    std::string sha256;
    std::string job;
  };
  // Returns the uploads that unfinished jobs name.
  std::vector<LiveArtifact> LiveArtifacts() const;
  // Returns the device as its worker registered it, or nullopt if the worker was removed.
  std::optional<v1::Device> FindDevice(const std::string& worker, const std::string& device) const;

  // The facts about an attempt that the server needs before it stores the attempt's telemetry. Only the job's current
  // attempt, or an attempt that reported its own end, may add telemetry.
  struct AttemptPlace {
    int64_t from_step = 0;  // The step of the checkpoint from which the attempt started.
    bool ended = false;
    std::string tenant;  // The job's tenant.
    // Whether the attempt's telemetry has a gap. This happens if the server was restored from a backup that lacks
    // telemetry that the earlier server had acknowledged.
    bool has_gap = false;
  };
  // Returns the facts about the attempt. NOT_FOUND if there is no such job or attempt. FAILED_PRECONDITION (reason
  // FENCED) if the token is not the attempt's, or the attempt was declared lost. Does not read the disk.
  absl::StatusOr<AttemptPlace> FindAttempt(const v1::AttemptKey& key) const;

  // Sets `job->retention`: the times at which the job's data will be deleted.
  void AddRetention(v1::Job* job) const { *job->mutable_retention() = RetentionOf(*job, options_.retention); }
  // For a running prediction job, sets `job->progress.step` to the step that its worker reported last. Such a job has
  // no metric points from which the step could be taken.
  void AddReportedStep(v1::Job* job) const;
  // If the job is queued, sets `job->pending`: why the job waits. Compares the job with every device.
  void AddPending(v1::Job* job) const;
  // Returns why a job with this record would wait if it were queued now; nullopt if no reason was found. Compares the
  // job with every device.
  std::optional<v1::Pending> PendingIfQueued(internal::JobRecord record) const;

 private:
  // The facts that decide, at one moment, whether a queued job can be placed.
  struct Place {
    Fleet fleet;
    std::string first_queued;  // Id of the job that is placed first; empty: no job is queued.
    bool is_behind = false;    // Whether the scheduler places other jobs before the given one.
    int jobs_ahead = 0;        // How many of these other jobs belong to the given job's tenant.
  };
  // Returns the visible jobs whose name is `text`, and those whose id begins with it. Returns at most `limit` jobs of
  // each kind from the hot state and as many from the history table, so a job may be in the result twice.
  absl::StatusOr<std::vector<JobRecordPtr>> RecordsLike(const std::string& text, int limit,
                                                        const Tenants& visible) const;
  // Computes the facts in Place for `job`, which may be null.
  Place FindPlace(const v1::Job* job) const;
  // Sets `pending` of the queued jobs on a page. `records` has the records of these jobs by submit order.
  void AddPending(const std::map<int64_t, JobRecordPtr>& records, v1::ListJobsResponse* page) const;

  const Options options_;
};

}  // namespace ampd::server
