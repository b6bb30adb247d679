// Applies updates about jobs that have ended: they archive, trim or delete a job.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/state/job_rules.h"
#include "server/state/transition.h"

namespace ampd::server {

using absl::StatusCode;
using internal::JobRecord;

bool Transition::StartsAnother(const std::string& path) const {
  return std::any_of(state_.jobs().begin(), state_.jobs().end(), [&](const auto& entry) {
    const JobRecord& other = *entry.second;
    const std::string& start = other.clone_start().path();
    // The path decides, not the job from which `other` was cloned, because a clone of a clone may begin with a
    // checkpoint of the first job.
    return (start == path || absl::StartsWith(start, absl::StrCat(path, "/"))) && !IsTerminal(other.job().state());
  });
}

absl::Status Transition::Do(const internal::DeleteJob& remove) {
  AMPD_ASSIGN_OR_RETURN(const NamedJob named, RequireNamedJob(remove.job(), remove.archived()));
  const JobRecordPtr& record = named.record;
  if (!IsTerminal(record->job().state())) {
    return WrongState(record->job(), "deleted");
  }
  if (StartsAnother(remove.job())) {
    return Error(StatusCode::kFailedPrecondition, "CHECKPOINT_IN_USE",
                 absl::StrCat("a job that goes on from the checkpoints of ", remove.job(), " has not ended"));
  }
  DeleteFolders(*record);
  applied_.changed = true;
  applied_.deleted_jobs.push_back(
      {remove.job(), record->job().tenant(), record->request_id(), record->job().traceparent()});
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::TrimJob& trim) {
  AMPD_ASSIGN_OR_RETURN(const NamedJob named, RequireNamedJob(trim.job(), trim.archived()));
  const JobRecordPtr& record = named.record;
  if (!IsTerminal(record->job().state())) {
    return WrongState(record->job(), "trimmed");
  }
  JobEdit edit = Edit(*record);
  if (trim.history()) {
    edit.job().set_history_deleted(true);
    applied_.deleted_histories.push_back({trim.job(), record->job().traceparent()});
  }
  if (trim.checkpoints()) {
    if (StartsAnother(trim.job())) {
      return Error(StatusCode::kFailedPrecondition, "CHECKPOINT_IN_USE",
                   absl::StrCat("a job that goes on from the checkpoints of ", trim.job(), " has not ended"));
    }
    DeleteFolders(*record);
    edit.job().clear_checkpoints();
  }
  FinishHotOrArchived(edit, named.is_hot);
  return absl::OkStatus();
}

absl::Status Transition::Do(const internal::ArchiveJobs& archive) {
  for (const std::string& id : archive.jobs()) {
    AMPD_ASSIGN_OR_RETURN(const JobRecordPtr record, RequireJob(id));
    if (!IsTerminal(record->job().state())) {
      return WrongState(record->job(), "archived");
    }
    applied_.archived.push_back(record);
    applied_.changed = true;
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
