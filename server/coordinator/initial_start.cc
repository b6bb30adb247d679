// Finds the checkpoint that a new job begins with.
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/admission/admission.h"
#include "server/admission/initial_checkpoint.h"
#include "server/coordinator/job_commands.h"
#include "server/state/job_rules.h"

namespace ampd::server {

using absl::StatusCode;

absl::Status JobCommands::ResolveStart(internal::CreateJob* create) const {
  const v1::CheckpointReference& reference = create->spec().model().initial_checkpoint();
  if (!create->spec().model().has_initial_checkpoint() || IsRepeat(create->tenant(), create->request_id())) {
    return absl::OkStatus();
  }
  absl::StatusOr<JobRecordPtr> source = options_.queries->FindRecord(reference.job_id());
  if (source.ok() && (*source)->job().tenant() != create->tenant()) {
    source = JobNotFound(reference.job_id());
  }
  if (absl::IsNotFound(source.status())) {
    return Error(StatusCode::kNotFound, ReasonOf(source.status()),
                 absl::StrCat("model.initial_checkpoint.job_id: ", source.status().message(),
                              HasFormOfJobId(reference.job_id())
                                  ? ""
                                  : "; this field takes the id of a job, such as j-abcdefghijklmnop, and no name"));
  }
  AMPD_RETURN_IF_ERROR(source.status());
  const bool is_any_newest = reference.step() == 0;
  AMPD_ASSIGN_OR_RETURN(*create->mutable_clone_start(),
                        ResolveInitialCheckpoint((*source)->job(), create->mutable_spec()));
  if (is_any_newest) {  // If the reference gives a step, only that step counts.
    for (v1::Checkpoint& older : OlderThan(**source, create->clone_start())) {
      // Skips checkpoints in the folders of other jobs. A new job takes only the weights of a checkpoint in the folder
      // of the job that the reference names. From any other checkpoint it would resume the training (ResumesTraining).
      if (JobOfPath(older.path()) == reference.job_id()) {
        older.set_step(0);
        *create->add_older_starts() = std::move(older);
      }
    }
  }
  return CheckStart(create);
}

absl::Status JobCommands::CheckStart(internal::CreateJob* create) const {
  if (IsRepeat(create->tenant(), create->request_id())) {
    return absl::OkStatus();
  }
  const std::string& path = create->clone_start().path();
  const std::string keeper = JobOfPath(path);
  // Reads the state before it looks up the record. If the job leaves the memory in between, the commit refuses the
  // update.
  create->set_start_is_hot(
      options_.ledger->Read([&](const ClusterState& state) { return state.FindJob(keeper) != nullptr; }));
  const absl::StatusOr<JobRecordPtr> record = options_.queries->FindRecord(keeper);
  if (absl::IsNotFound(record.status())) {
    return Error(StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
                 absl::StrCat("the checkpoint to begin with is that of job ", keeper,
                              ", which is deleted; a clone can start from the beginning"));
  }
  AMPD_RETURN_IF_ERROR(record.status());
  return Keeps((*record)->job(), path) ? absl::OkStatus() : NoLongerKept(keeper);
}

}  // namespace ampd::server
