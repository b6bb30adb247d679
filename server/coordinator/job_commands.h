#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/job_service.pb.h"
#include "base/api/tenants.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/trace_context.h"
#include "server/coordinator/job_queries.h"
#include "server/coordinator/uploaded_model.h"
#include "server/ledger/ledger.h"

namespace ampd::server {

using JobDone = std::function<void(absl::StatusOr<JobPtr>)>;
using Done = std::function<void(absl::Status)>;

// The user and tenant for whom a job is created.
struct Submitter {
  std::string owner;                                 // Job.owner.
  std::string tenant = std::string(kDefaultTenant);  // Job.tenant.
  int64_t max_jobs = 0;                              // Limit for the unfinished jobs of the tenant; 0: no limit.
  int64_t max_spec_bytes = 0;                        // Limit for the total size of these jobs' specs; 0: no limit.
  TraceContext trace;                                // The server's span for the call; the job's trace continues it.
};

// The commands with which clients change jobs. Each command checks its request, commits one update and answers with the
// job as it is after the update. The answer comes only after the update is on disk. job_service.proto documents each
// command.
//
// `done` is called exactly once: on the ledger's thread, or on the caller's thread if nothing had to be written. `done`
// must be quick. A command may block on the disk if it names an initial checkpoint, or a job that is not in memory.
// CreateJob and CloneJob may block in ModelFinder::Find if the spec names an artifact. Nothing else here blocks.
// Thread-safe.
class JobCommands {
 public:
  struct Options {
    Ledger* ledger = nullptr;
    const Clock* clock = nullptr;
    RandomSource* random = nullptr;  // Thread-safe.
    const JobQueries* queries = nullptr;
    const ModelFinder* models = nullptr;
    // If the jobs in memory exceed either of these limits, new jobs are refused.
    size_t max_jobs_in_hot_state = 0;
    size_t max_spec_bytes_in_hot_state = 0;
  };
  explicit JobCommands(const Options& options) : options_(options) {}

  // If the spec names a model or another job's checkpoint, that must belong to the submitter's tenant.
  void CreateJob(const v1::CreateJobRequest& request, JobDone done, const Submitter& submitter = {});
  void CloneJob(const v1::CloneJobRequest& request, JobDone done, const Submitter& submitter = {});
  void CancelJob(const v1::CancelJobRequest& request, JobDone done);
  void PauseJob(const v1::PauseJobRequest& request, JobDone done);
  void ResumeJob(const v1::ResumeJobRequest& request, JobDone done);
  void UpdateJob(const v1::UpdateJobRequest& request, JobDone done);
  void DeleteJob(const v1::DeleteJobRequest& request, Done done);
  void DeleteCheckpoint(const v1::DeleteCheckpointRequest& request, Done done);

 private:
  // A spec with its defaults filled in, and an object that protects the artifact of its model from deletion.
  struct Admitted {
    v1::JobSpec spec;
    std::shared_ptr<void> artifact;
  };

  internal::Update NewUpdate() const;
  // Commits the update, then calls `done` with the job as it is after the update.
  void CommitForJob(internal::Update update, std::string id, JobDone done);
  void CommitDesired(const std::string& id, v1::Job::Desired desired, const std::string& etag, JobDone done);
  void CommitNewJob(internal::CreateJob create, JobDone done);
  // Returns RESOURCE_EXHAUSTED if the disk or the memory has no capacity for a job whose spec has `spec_bytes`.
  absl::Status CheckCapacity(size_t spec_bytes) const;
  // Checks the spec and fills in its defaults. Reads an uploaded model for the check, except for a repeated request and
  // for a job that resumes from a checkpoint, which contains the model.
  absl::StatusOr<Admitted> Admit(const std::string& tenant, const v1::JobSpec& spec, const std::string& request_id,
                                 bool resumes) const;
  // If the spec names an initial checkpoint of another job, finds that checkpoint and stores it in `create`. NOT_FOUND
  // if there is no such job. Other errors: those of ResolveInitialCheckpoint and CheckStart.
  absl::Status ResolveStart(internal::CreateJob* create) const;
  // Returns NOT_FOUND (CHECKPOINT_NOT_FOUND) if the initial checkpoint is no longer kept. If the job that keeps the
  // checkpoint is in memory, the commit repeats this check.
  absl::Status CheckStart(internal::CreateJob* create) const;
  // Whether an earlier request with this id created a job.
  bool IsRepeat(const std::string& tenant, const std::string& request_id) const;
  // If an earlier request with this id created a job, answers and returns true: calls `done` with that job, or with
  // ALREADY_EXISTS if the earlier request was a different one. Otherwise returns false and does not call `done`.
  bool AnswerRepeat(const std::string& tenant, const std::string& request_id, const std::string& digest, JobDone* done);

  const Options options_;
};

}  // namespace ampd::server
