#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/state/cluster_state.h"
#include "server/state/job_edit.h"

namespace ampd::server {

// Applies one update. It only reads the state, and collects the changes in an Applied. ClusterState::Apply adopts them
// at the end, so an update that is refused midway changes nothing. Single-threaded; owned by ClusterState::Apply.
class Transition {
 public:
  Transition(const ClusterState& state, const internal::Update& update) : state_(state), update_(update) {}

  // Applies the update. REQUIRES: called once.
  absl::StatusOr<Applied> Run();

 private:
  absl::Status Dispatch();
  absl::Status Do(const internal::CreateJob& create);
  absl::Status Do(const internal::SetDesired& set);
  absl::Status Do(const internal::ChangeJob& change);
  absl::Status Do(const internal::DeleteJob& remove);
  absl::Status Do(const internal::RegisterWorker& registration);
  absl::Status Do(const internal::SetDrained& set);
  absl::Status Do(const internal::LoseWorker& lose);
  absl::Status Do(const internal::RemoveWorker& remove);
  absl::Status Do(const internal::AssignAttempt& assign);
  absl::Status Do(const internal::AdvanceAttempt& advance);
  absl::Status Do(const internal::RecordCheckpoint& record);
  absl::Status Do(const internal::EndAttempt& end);
  absl::Status Do(const internal::ExpireDeadline& expire);
  absl::Status Do(const internal::StartOver& start_over);
  absl::Status Do(const internal::DropCheckpoint& drop);
  absl::Status Do(const internal::CheckpointsDeleted& deleted);
  absl::Status Do(const internal::ArchiveJobs& archive);
  absl::Status Do(const internal::TrimJob& trim);
  absl::Status Do(const internal::RestoreServer& restore);

  absl::Status Cancel(JobEdit& edit);
  absl::Status Pause(JobEdit& edit);
  absl::Status Resume(JobEdit& edit);
  absl::Status CheckAssignment(const internal::AssignAttempt& assign, const internal::JobRecord& record) const;
  absl::Status CheckDecision(const internal::AssignAttempt& assign, const internal::JobRecord& record,
                             const internal::WorkerRecord& worker) const;
  absl::Status CheckStart(const internal::CreateJob& create) const;
  // Returns RESOURCE_EXHAUSTED (TENANT_LIMIT) if the job would exceed its tenant's limits.
  absl::Status CheckLimits(const internal::CreateJob& create, const std::string& tenant) const;

  absl::StatusOr<JobRecordPtr> RequireJob(const std::string& id) const;
  struct NamedJob {
    JobRecordPtr record;
    bool is_hot = true;  // False: the job is in the history table.
  };
  // Returns the job that the update names, from the hot state (memory) or the history table. `earlier`: the job's
  // record, which an earlier version of the server stored in another field of the update; empty if that field is not
  // set.
  absl::StatusOr<NamedJob> RequireNamedJob(const std::string& id, const internal::JobRecord& earlier = {});
  // Finishes the edit. The edited record goes into the hot state if `is_hot`, otherwise into the history table.
  void FinishHotOrArchived(JobEdit& edit, bool is_hot);
  absl::StatusOr<WorkerRecordPtr> RequireWorker(const std::string& name) const;
  // Returns the job's record if the key names the job's newest attempt and that attempt is live. NOT_FOUND if there is
  // no such job or attempt; FENCED if the token differs, or the attempt is not the newest or has ended.
  absl::StatusOr<JobRecordPtr> RequireOwner(const v1::AttemptKey& key) const;
  JobEdit Edit(const internal::JobRecord& record) const { return {record, update_.time_unix_micros()}; }
  // Returns a digest of the id of the agent that has the worker's name; empty if it is not known.
  std::string AgentOf(const std::string& worker) const;
  internal::WorkerRecord& EditWorker(const internal::WorkerRecord& record);
  // Returns a worker that is not lost and shares the lost worker's checkpoint root; empty if there is none.
  std::string FindSharedRootPeer(const internal::WorkerRecord& lost) const;
  // Returns the worker itself. If it is lost, returns a worker that shares its checkpoint root, if there is one.
  std::string ReachableWorker(const std::string& worker) const;
  void HandOverDeletions(internal::WorkerRecord& lost);
  // Orders a worker that can reach the checkpoint's files to delete them.
  void DeleteFiles(const internal::JobRecord& record, const v1::Checkpoint& checkpoint);
  // Orders workers to delete the job's folders in the checkpoint roots, with all their files, including files that were
  // never recorded.
  void DeleteFolders(const internal::JobRecord& record);
  // If the next assignment will drop the job's oldest attempt from the record, orders the worker to delete that
  // attempt's folder. Does nothing if the folder will be deleted together with the job.
  void DeleteFolderOfForgotten(const internal::JobRecord& record);
  void DeletePath(const std::string& worker, const v1::CheckpointKey& key);
  // Drops checkpoints, except the newest ones that the spec keeps and, if the spec says so, the best one.
  void DropOldCheckpoints(const internal::JobRecord& record, JobEdit& edit);
  // Whether any unfinished job starts from the checkpoint `path`. If `path` is the folder of a job: whether any starts
  // from a checkpoint in that folder.
  bool StartsAnother(const std::string& path) const;

  const ClusterState& state_;
  const internal::Update& update_;
  Applied applied_;
  std::map<std::string, std::shared_ptr<internal::WorkerRecord>> workers_;
};

}  // namespace ampd::server
