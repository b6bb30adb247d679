// Applies the update that records the restore of a server from a backup.
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/state/job_rules.h"
#include "server/state/transition.h"

namespace ampd::server {

using v1::Job;

// Stops all attempts that are live in the backup. After the backup was made, the worker of such an attempt may have
// ended it. If the attempt stayed live, that worker would start it again under its old number. An attempt that still
// runs saves a checkpoint and exits, so nothing that it computed is lost. An attempt that no longer runs is not started
// again.
absl::Status Transition::Do(const internal::RestoreServer& restore) {
  if (restore.epoch() <= state_.epoch()) {
    return Error(absl::StatusCode::kFailedPrecondition, "STALE_EPOCH",
                 absl::StrCat("the epoch ", restore.epoch(), " is not above ", state_.epoch(),
                              "; check the clock of this host"));
  }
  applied_.epoch = restore.epoch();
  applied_.changed = true;
  for (const auto& [order, record] : state_.jobs()) {
    const Job::State state = record->job().state();
    if (IsTerminal(state)) {
      continue;
    }
    JobEdit edit = Edit(*record);
    edit.record().set_least_attempt(LeastAttemptAfterGap(*record, restore.attempt_gap()));
    edit.record().set_interrupted_attempt(IsActive(state) ? record->job().num_attempts() : 0);
    if (state == Job::STARTING || state == Job::RUNNING) {
      AMPD_RETURN_IF_ERROR(edit.Move(Job::PAUSING, v1::Reason::PREEMPTED, restore.message()));
    }
    edit.Finish(&applied_);
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
