// Chooses what workers must delete in their checkpoint roots. A path names a checkpoint, "<job>/<attempt>/step-<n>", or
// a whole folder, "<job>/<attempt>" or "<job>". A folder may also contain checkpoints that were incomplete when an
// attempt was killed, and checkpoints that were saved but never recorded.
#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/state/job_rules.h"
#include "server/state/transition.h"

namespace ampd::server {

using internal::JobRecord;
using v1::Attempt;

std::string Transition::FindSharedRootPeer(const internal::WorkerRecord& lost) const {
  const auto& workers = state_.workers();
  const auto other = std::find_if(workers.begin(), workers.end(), [&](const auto& entry) {
    return !entry.second->lost() && entry.second->worker().checkpoint_root_shared() &&
           entry.first != lost.worker().name();
  });
  return lost.worker().checkpoint_root_shared() && other != workers.end() ? other->first : "";
}

std::string Transition::ReachableWorker(const std::string& worker) const {
  const WorkerRecordPtr record = state_.FindWorker(worker);
  const std::string other = record != nullptr && record->lost() ? FindSharedRootPeer(*record) : "";
  return other.empty() ? worker : other;
}

void Transition::HandOverDeletions(internal::WorkerRecord& lost) {
  const std::string other = FindSharedRootPeer(lost);
  if (other.empty()) {
    return;
  }
  for (const v1::CheckpointKey& key : lost.delete_checkpoints()) {
    DeletePath(other, key);
  }
  lost.clear_delete_checkpoints();
}

void Transition::DeletePath(const std::string& worker, const v1::CheckpointKey& key) {
  const WorkerRecordPtr record = state_.FindWorker(worker);
  if (record == nullptr) {
    return;
  }
  auto& waiting = *EditWorker(*record).mutable_delete_checkpoints();
  // An order to delete a folder includes everything in it, so earlier orders for paths in the folder are dropped.
  const std::string below = key.path() + "/";
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                               [&](const v1::CheckpointKey& other) { return absl::StartsWith(other.path(), below); }),
                waiting.end());
  *waiting.Add() = key;
}

void Transition::DeleteFiles(const JobRecord& record, const v1::Checkpoint& checkpoint) {
  if (checkpoint.path() != PathOf(record.job().id(), checkpoint)) {
    return;  // An older server accepted any path; this one may be another job's.
  }
  v1::CheckpointKey key;
  key.mutable_attempt()->set_job_id(record.job().id());
  key.mutable_attempt()->set_attempt(checkpoint.attempt());
  key.set_step(checkpoint.step());
  key.set_path(checkpoint.path());
  DeletePath(ReachableWorker(checkpoint.worker()), key);
}

void Transition::DeleteFolders(const JobRecord& record) {
  std::set<std::string> workers;
  for (const Attempt& attempt : record.job().attempts()) {
    workers.insert(attempt.worker());
  }
  for (const v1::Checkpoint& checkpoint : record.job().checkpoints()) {
    workers.insert(checkpoint.worker());
  }
  // Lost workers get the order to delete as well, in case they return. An agent first ends the attempts of the job that
  // it still runs, then deletes.
  for (const std::string& worker : std::set<std::string>(workers)) {
    workers.insert(ReachableWorker(worker));
  }
  v1::CheckpointKey key;
  key.mutable_attempt()->set_job_id(record.job().id());
  key.set_path(record.job().id());
  for (const std::string& worker : workers) {
    DeletePath(worker, key);
  }
}

void Transition::DeleteFolderOfForgotten(const JobRecord& record) {
  const auto& attempts = record.job().attempts();
  if (attempts.size() < kAttemptsKept) {
    return;
  }
  const Attempt& forgotten = attempts[0];
  const bool is_known_otherwise = std::any_of(attempts.begin() + 1, attempts.end(), [&](const Attempt& attempt) {
    return attempt.worker() == forgotten.worker();
  });
  const auto& kept = record.job().checkpoints();
  const bool holds_a_checkpoint = std::any_of(kept.begin(), kept.end(), [&](const v1::Checkpoint& checkpoint) {
    return checkpoint.attempt() == forgotten.number();
  });
  if (is_known_otherwise || holds_a_checkpoint) {
    return;  // The deletion of the whole job will remove the folder.
  }
  v1::CheckpointKey key;
  key.mutable_attempt()->set_job_id(record.job().id());
  key.mutable_attempt()->set_attempt(forgotten.number());
  key.set_path(absl::StrCat(record.job().id(), "/", forgotten.number()));
  DeletePath(ReachableWorker(forgotten.worker()), key);
}

absl::Status Transition::Do(const internal::CheckpointsDeleted& deleted) {
  AMPD_ASSIGN_OR_RETURN(const WorkerRecordPtr worker, RequireWorker(deleted.worker()));
  internal::WorkerRecord& record = EditWorker(*worker);
  for (const v1::CheckpointKey& key : deleted.keys()) {
    auto& waiting = *record.mutable_delete_checkpoints();
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                                 [&](const v1::CheckpointKey& other) { return other.path() == key.path(); }),
                  waiting.end());
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
