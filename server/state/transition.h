#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/state/cluster_state.h"
#include "server/state/job_edit.h"

namespace ampd::server {

// One update being applied to a state that it only reads: what it does is gathered in an Applied and taken over at the
// end, so that a refusal in the middle leaves nothing behind. Single-threaded: owner is ClusterState::Apply.
class Transition {
 public:
  Transition(const ClusterState& state, const internal::Update& update) : state_(state), update_(update) {}

  // REQUIRES: called once.
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

  absl::Status Cancel(JobEdit& edit);
  absl::Status Pause(JobEdit& edit);
  absl::Status Resume(JobEdit& edit);
  absl::Status CheckAssignment(const internal::AssignAttempt& assign, const internal::JobRecord& record) const;
  absl::Status CheckDecision(const internal::AssignAttempt& assign, const internal::JobRecord& record,
                             const internal::WorkerRecord& worker) const;
  absl::Status CheckStart(const internal::CreateJob& create) const;

  absl::StatusOr<JobRecordPtr> RequireJob(const std::string& id) const;
  struct NamedJob {
    JobRecordPtr record;
    bool is_hot = true;  // false: it is in the history table
  };
  // The job that the update names, in the hot state or in the history table. `earlier`: the record that an earlier
  // server's journal has in the update itself; may be empty.
  absl::StatusOr<NamedJob> RequireNamedJob(const std::string& id, const internal::JobRecord& earlier = {});
  // Takes over the edited record: into the hot state, or into the history table where the job is in that.
  void FinishHotOrArchived(JobEdit& edit, bool is_hot);
  absl::StatusOr<WorkerRecordPtr> RequireWorker(const std::string& name) const;
  // The record, when the key names the job's newest attempt and that is alive.
  absl::StatusOr<JobRecordPtr> RequireOwner(const v1::AttemptKey& key) const;
  JobEdit Edit(const internal::JobRecord& record) const { return {record, update_.time_unix_micros()}; }
  // A digest of the id of the agent that has the worker's name; empty: not known.
  std::string AgentOf(const std::string& worker) const;
  internal::WorkerRecord& EditWorker(const internal::WorkerRecord& record);
  // A worker that is not lost and shares the lost worker's checkpoint root; empty if there is none.
  std::string FindSharedRootPeer(const internal::WorkerRecord& lost) const;
  // The worker itself, or, if it is lost, the worker that shares its checkpoint root, if there is one.
  std::string ReachableWorker(const std::string& worker) const;
  void HandOverDeletions(internal::WorkerRecord& lost);
  // Has a worker that can reach the files delete them.
  void DeleteFiles(const internal::JobRecord& record, const v1::Checkpoint& checkpoint);
  // Has all files of the job below the checkpoint roots deleted, recorded or not, by the path of the job's folder.
  void DeleteFolders(const internal::JobRecord& record);
  // Has the folder of the job's oldest attempt deleted, if the next assignment drops that attempt from the record.
  void DeleteFolderOfForgotten(const internal::JobRecord& record);
  void DeletePath(const std::string& worker, const v1::CheckpointKey& key);
  // Drops all checkpoints except the newest ones that the spec keeps, and the best if the spec keeps it.
  void DropOldCheckpoints(const internal::JobRecord& record, JobEdit& edit);
  // Whether an unfinished job starts from this checkpoint, or from one below this job's folder.
  bool StartsAnother(const std::string& path) const;

  const ClusterState& state_;
  const internal::Update& update_;
  Applied applied_;
  std::map<std::string, std::shared_ptr<internal::WorkerRecord>> workers_;
};

}  // namespace ampd::server
