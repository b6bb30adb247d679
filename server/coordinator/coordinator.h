#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/wall_clock_watch.h"
#include "graph/exported/exported_program.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/worker_session.h"
#include "server/ledger/journal.h"
#include "server/state/cluster_state.h"
#include "server/state/liveness.h"
#include "server/state/placement.h"

namespace ampd::server {

struct Publication;

// The verbs of the service: what clients ask for, what workers report, and what time does. It decides and commits; the
// ledger keeps. Nothing it answers or hands out is ever taken back by a crash.
//
//   1. client: CreateJob          -> committed, placed at once if a device is free, answered
//   2. on_directive_due(worker)   -> the stream sends CurrentDirective(worker)
//   3. worker: report             -> HandleReport: facts are committed, the answer is the directive, its lease renewed
//   4. facts are on disk          -> on_directive_due(worker): the next directive acknowledges them
//
// Tick must be called every few hundred milliseconds. Answers of asynchronous verbs come on the ledger's thread, or on
// the caller's when nothing had to be written; they must be quick. Thread-safe.
class Coordinator {
 public:
  using Options = CoordinatorOptions;
  using JobDone = std::function<void(absl::StatusOr<JobPtr>)>;
  using WorkerDone = std::function<void(absl::StatusOr<v1::Worker>)>;
  using Done = std::function<void(absl::Status)>;

  explicit Coordinator(Options options);

  // Journals the beginning of this server life. Call once, before anything else and after the ledger's Start, whose
  // listener the constructor set. Blocks until it is on disk.
  absl::Status Start();

  // The exported model that a spec names by its artifact.
  struct UploadedModel {
    std::shared_ptr<void> artifact;                        // while it lives, the file is not deleted
    std::shared_ptr<const graph::ExportedModel> exported;  // null: not known here
  };
  // Nothing of another model. May block, as Options::read_model, whose errors it has; NOT_FOUND (ARTIFACT_NOT_FOUND).
  absl::StatusOr<UploadedModel> FindModel(const v1::ModelSpec& spec) const;

  // Whether a job's record is in memory. Quick.
  bool IsHot(const std::string& id) const;

  // ---- Clients. `done` is called exactly once. See job_service.proto for what each promises. A call that names a job
  // which is not hot, or an initial checkpoint, may block on the disk; CreateJob and CloneJob of a spec with an
  // artifact may block as FindModel does. Nothing else here blocks.
  void CreateJob(const v1::CreateJobRequest& request, JobDone done);
  void CancelJob(const v1::CancelJobRequest& request, JobDone done);
  void PauseJob(const v1::PauseJobRequest& request, JobDone done);
  void ResumeJob(const v1::ResumeJobRequest& request, JobDone done);
  void UpdateJob(const v1::UpdateJobRequest& request, JobDone done);
  void CloneJob(const v1::CloneJobRequest& request, JobDone done);
  void DeleteJob(const v1::DeleteJobRequest& request, Done done);
  void DeleteCheckpoint(const v1::DeleteCheckpointRequest& request, Done done);

  // `progress` is left empty; server/telemetry adds it.
  absl::StatusOr<JobPtr> GetJob(const std::string& id) const;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) const;
  absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const v1::ExplainJobRequest& request) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request) const;
  // The workers and devices that a job with this spec could run on now (server::MatchingWorkers).
  std::vector<v1::Worker> WorkersFor(const v1::JobSpec& spec) const;
  // Maps each upload that an unfinished job names to one such job.
  std::map<std::string, std::string> LiveArtifacts() const;
  // The device as its worker registered it; nothing if the worker was removed.
  std::optional<v1::Device> FindDevice(const std::string& worker, const std::string& device) const;

  // ---- Operators.
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request) const;
  void DrainWorker(const v1::DrainWorkerRequest& request, WorkerDone done);
  void UndrainWorker(const v1::UndrainWorkerRequest& request, WorkerDone done);
  void RemoveWorker(const v1::RemoveWorkerRequest& request, Done done);

  // ---- Workers.
  // Processes a report and returns the directive that renews the worker's lease. A later directive acknowledges the
  // report's facts, once they are on disk. An error ends the stream:
  //   INVALID_ARGUMENT     the registration is not valid (CheckRegistration),
  //   ALREADY_EXISTS       another agent has the name, and its worker is not lost (reason WORKER_NAME_IN_USE),
  //   ABORTED              a newer incarnation of this agent has connected (reason REPLACED).
  // A report that is older than one already processed is ignored, and the directive renews nothing. Facts about an
  // attempt that can't be true are skipped.
  absl::StatusOr<v1::WorkerDirective> HandleReport(const v1::WorkerReport& report);
  // The current directive for a worker, without renewing its lease. NOT_FOUND unless this incarnation sent the worker's
  // last report in this life of the server: a directive holds attempt tokens, which are secrets of that incarnation.
  absl::StatusOr<v1::WorkerDirective> CurrentDirective(const std::string& worker, const std::string& incarnation);

  // An attempt whose telemetry may be stored: the job's current one, or one that ended by its own outcome.
  struct AttemptPlace {
    int64_t from_step = 0;  // The step of the checkpoint that it started from.
    bool ended = false;
  };
  // NOT_FOUND if there is no such job or attempt. FAILED_PRECONDITION (reason FENCED) if the token is not the
  // attempt's, or the attempt was declared lost.
  absl::StatusOr<AttemptPlace> FindAttempt(const v1::AttemptKey& key) const;

  // Does what is due by time: placement, lost workers, deadlines, expired waits, retention.
  void Tick();

  // Whether anything may be deleted by its age now.
  bool ClockIsSteady() const { return clock_watch_.IsSteady(); }
  // Says in the job when what it leaves is deleted.
  void AddRetention(v1::Job* job) const { *job->mutable_retention() = RetentionOf(*job, options_.retention); }

  // For /metrics.
  struct Counts {
    std::map<v1::Job::State, int64_t> jobs;
    std::map<v1::Worker::State, int64_t> workers;
    int64_t num_devices_held = 0;
    int64_t num_devices = 0;
  };
  Counts counts() const;

 private:
  using Session = WorkerSession;
  using Updates = std::vector<internal::Update>;

  void OnPublished(const Publication& publication);
  void TellListeners(const Publication& publication);
  internal::Update NewUpdate() const;
  // Commits updates whose result nobody waits for. If one is refused, the next tick or report makes it again.
  void CommitQuietly(Updates updates);
  // Commits the update, then calls `done` with the job as it is after the update.
  void CommitForJob(internal::Update update, std::string id, JobDone done);
  void CommitDesired(const std::string& id, v1::Job::Desired desired, const std::string& etag, JobDone done);
  void CommitDrained(const std::string& worker, bool drained, WorkerDone done);
  void CommitNewJob(internal::CreateJob create, JobDone done);
  // RESOURCE_EXHAUSTED if the disk or the memory has no capacity for a job whose spec has `spec_bytes`.
  absl::Status CheckRoom(size_t spec_bytes) const;
  // If the spec names an initial checkpoint of another job, resolves it into `create`. NOT_FOUND if there is no such
  // job; other errors as ResolveInitialCheckpoint.
  absl::Status FindStart(internal::CreateJob* create) const;
  // NOT_FOUND (CHECKPOINT_NOT_FOUND) if clone_start is no longer kept. For a job in memory, the commit checks again.
  absl::Status CheckStart(internal::CreateJob* create) const;
  // If an earlier request with this id created a job, calls `done` with that job, or with ALREADY_EXISTS if the earlier
  // request was a different one, and returns true. Otherwise returns false and does not call `done`.
  bool AnswerRepeat(const std::string& request_id, const std::string& digest, JobDone* done);
  // Whether an earlier request with this id created a job.
  bool IsRepeat(const std::string& request_id) const;
  // The spec with its defaults filled in, and a hold on the artifact of its model. The model is not read for a repeated
  // request, nor if the job resumes from a checkpoint (`goes_on`), which contains the model.
  struct Admitted {
    v1::JobSpec spec;
    std::shared_ptr<void> artifact;
  };
  absl::StatusOr<Admitted> Admit(const v1::JobSpec& spec, const std::string& request_id, bool goes_on) const;
  absl::StatusOr<JobRecordPtr> FindRecord(const std::string& id) const;

  // Refuses a second agent with the same name: both would run the same attempts.
  absl::Status CheckAgent(const v1::WorkerReport& report, const Session& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeSession(const v1::WorkerReport& report, bool* is_new) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRegistration(const v1::WorkerReport& report, const ClusterState& state, Updates* updates) const;
  // Records what is reported of an attempt. Returns a sentence about facts that can't be true, or an empty string.
  std::string NoteAttempt(const std::string& worker, const v1::AttemptReport& reported, const ClusterState& state,
                          Updates* updates) const;
  bool IsSilent(const Session& session, const internal::WorkerRecord* record) const;
  void NoteRival(const v1::WorkerReport& report, const absl::Status& refusal, Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellOddity(const std::string& worker, const std::string& oddity, Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteGone(const Session& session, const ClusterState& state, Updates* updates) const;
  void NoteDeletions(const Session& session, const ClusterState& state, Updates* updates) const;
  v1::WorkerDirective BuildDirective(const std::string& worker, Session& session, bool renew)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRenew(const std::string& worker, const Session& session, const ClusterState& state) const;
  v1::Worker ViewOf(const ClusterState& state, const internal::WorkerRecord& record) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LiveWorkers Live() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Place();
  void LoseSilentWorkers();
  void Sweep();
  void ExpireDeadlines(const ClusterState& state, Updates* updates) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartOverStranded(const ClusterState& state, Updates* updates) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeleteExpired();  // Processes a limited number of jobs in each call.
  void DeleteExpiredOfHistory(absl::Time now, Updates* updates);
  void RemoveExpiredWorkers(const ClusterState& state, Updates* updates) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  WallClockWatch clock_watch_;
  uint64_t life_ = 0;

  mutable absl::Mutex mutex_;
  std::map<std::string, Session> sessions_ ABSL_GUARDED_BY(mutex_);
  Liveness liveness_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_directive_ ABSL_GUARDED_BY(mutex_) = 1;
  // Since when a queued job's local checkpoint is out of reach, by job.
  std::map<std::string, absl::Duration> stranded_since_ ABSL_GUARDED_BY(mutex_);
  // When the jobs with a deadline started, by the clock since boot, which nobody sets.
  std::map<std::string, absl::Duration> started_since_boot_ ABSL_GUARDED_BY(mutex_);
  // Since when this life has known a worker as lost.
  std::map<std::string, absl::Duration> lost_since_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_sweep_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_deletion_ ABSL_GUARDED_BY(mutex_);
  EndPosition looked_at_ ABSL_GUARDED_BY(mutex_);  // Where DeleteExpired continues in the history table.
};

}  // namespace ampd::server
