#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "base/clock.h"
#include "server/coordinator/worker_sessions.h"
#include "server/ledger/ledger.h"
#include "server/state/cluster_state.h"
#include "server/state/retention.h"

namespace ampd::server {

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

  // See job_service.proto for the contract of each.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) const;
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const v1::ExplainJobRequest& request) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) const;

  // The workers and devices that a job with this spec could run on now (server::MatchingWorkers).
  std::vector<v1::Worker> WorkersFor(const v1::JobSpec& spec) const;
  // Maps each upload that an unfinished job names to the id of one such job.
  std::map<std::string, std::string> LiveArtifacts() const;
  // Returns the device as its worker registered it; nothing if the worker was removed.
  std::optional<v1::Device> FindDevice(const std::string& worker, const std::string& device) const;

  // Facts about an attempt whose telemetry may be stored. The attempt is its job's current one, or it reported its own
  // end.
  struct AttemptPlace {
    int64_t from_step = 0;  // The step of the checkpoint that it started from.
    bool ended = false;
  };
  // Returns the facts about the attempt. NOT_FOUND if there is no such job or attempt. FAILED_PRECONDITION (reason
  // FENCED) if the token is not the attempt's, or the attempt was declared lost. Quick.
  absl::StatusOr<AttemptPlace> FindAttempt(const v1::AttemptKey& key) const;

  // Sets `job->retention`: when the data that the job leaves behind will be deleted.
  void AddRetention(v1::Job* job) const { *job->mutable_retention() = RetentionOf(*job, options_.retention); }

 private:
  const Options options_;
};

}  // namespace ampd::server
