#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "base/clock.h"
#include "base/tenants.h"
#include "server/coordinator/worker_sessions.h"
#include "server/ledger/ledger.h"
#include "server/state/cluster_state.h"
#include "server/state/placement.h"
#include "server/state/retention.h"

namespace ampd::server {

// Reads a record of the history table. DATA_LOSS (STORE_CORRUPT) if it is damaged.
absl::StatusOr<JobRecordPtr> ParseJobRecord(const std::string& bytes);

// The error for a job that does not exist: NOT_FOUND, reason JOB_NOT_FOUND.
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
  };
  explicit JobQueries(const Options& options) : options_(options) {}

  // Whether the job's record is in memory. Quick.
  bool IsInMemory(const std::string& id) const;
  // Returns the job's record from memory or the history table. NOT_FOUND (JOB_NOT_FOUND); DATA_LOSS if the history
  // table is damaged.
  absl::StatusOr<JobRecordPtr> FindRecord(const std::string& id) const;
  // Returns the job without `progress`, which server/telemetry adds. Errors: those of FindRecord.
  absl::StatusOr<JobPtr> GetJob(const std::string& id) const;

  // The calls of JobService with these names; job_service.proto documents them.
  // `visible`: the tenants whose jobs the caller may see; jobs of others do not exist for it.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                const Tenants& visible = Tenants::All()) const;
  absl::StatusOr<v1::FindJobsResponse> FindJobs(const v1::FindJobsRequest& request,
                                                const Tenants& visible = Tenants::All()) const;
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const v1::ExplainJobRequest& request) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) const;

  // A recorded checkpoint, and a worker that can read its files now: the one that saved it, or else any other.
  struct CheckpointPlace {
    v1::Checkpoint checkpoint;
    std::string worker;  // Empty: no worker that reports to the server can reach the files.
  };
  // Errors: those of FindRecord, and NOT_FOUND (CHECKPOINT_NOT_FOUND).
  absl::StatusOr<CheckpointPlace> FindCheckpoint(const std::string& job, int32_t attempt, int64_t step) const;

  // The workers and devices that a job of the tenant with this spec could run on now (server::MatchingWorkers).
  std::vector<v1::Worker> WorkersFor(const std::string& tenant, const v1::JobSpec& spec) const;
  // An upload, by the tenant that it is for and its SHA-256, and a job of that tenant.
  struct LiveArtifact {
    std::string tenant;
    std::string sha256;
    std::string job;
  };
  // The uploads that unfinished jobs name.
  std::vector<LiveArtifact> LiveArtifacts() const;
  // Returns the device as its worker registered it; nothing if the worker was removed.
  std::optional<v1::Device> FindDevice(const std::string& worker, const std::string& device) const;

  // What the server needs to know before it stores the telemetry of an attempt: only the job's current attempt, or one
  // that reported its own end, may add telemetry.
  struct AttemptPlace {
    int64_t from_step = 0;  // The step of the checkpoint that it started from.
    bool ended = false;
    std::string tenant;  // Of the job.
    // Whether its telemetry has a gap: an earlier server acknowledged some, and was then restored from a backup without
    // it.
    bool has_gap = false;
  };
  // Returns the facts about the attempt. NOT_FOUND if there is no such job or attempt. FAILED_PRECONDITION (reason
  // FENCED) if the token is not the attempt's, or the attempt was declared lost. Quick.
  absl::StatusOr<AttemptPlace> FindAttempt(const v1::AttemptKey& key) const;

  // Sets `job->retention`: when the data that the job leaves behind will be deleted.
  void AddRetention(v1::Job* job) const { *job->mutable_retention() = RetentionOf(*job, options_.retention); }
  // Sets `job->progress.step` of a running job that predicts to the step that its worker reported last, because such a
  // job has no metric points that would tell it.
  void AddReportedStep(v1::Job* job) const;
  // Sets `job->pending` if the job is queued: why it waits. Compares the job with every device.
  void AddPending(v1::Job* job) const;

 private:
  // Everything that decides whether a queued job is placed, at one moment.
  struct Place {
    Fleet fleet;
    std::string first_queued;  // Id of the job that is placed first; empty: no job is queued.
    bool is_behind = false;    // Whether other jobs are placed before the given one.
    int jobs_ahead = 0;        // How many of them belong to its tenant.
  };
  // Returns visible jobs with this name, and those whose id begins with the text; at most `limit` of each kind from the
  // hot state and from the history table. A job may be there twice.
  absl::StatusOr<std::vector<JobRecordPtr>> RecordsLike(const std::string& text, int limit,
                                                        const Tenants& visible) const;
  // `job` may be null.
  Place FindPlace(const v1::Job* job) const;
  // Sets `pending` of the queued jobs on a page; `records` has the jobs' records by submit order.
  void AddPending(const std::map<int64_t, JobRecordPtr>& records, v1::ListJobsResponse* page) const;

  const Options options_;
};

}  // namespace ampd::server
