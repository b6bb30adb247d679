#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"

namespace ampd::server {

struct RestoreOptions {
  std::string from;      // The folder of a backup.
  std::string data_dir;  // A folder that does not exist yet, or is empty.
  const Clock* clock = nullptr;
  RandomSource* random = nullptr;
  // Called before each step, with what it does: a file's path, "journal", "metrics" or "rename". Its error stops the
  // restore. May be null.
  std::function<absl::Status(const std::string& step)> before_step;
};

struct RestoreSummary {
  absl::Time backup_time;
  uint64_t last_update = 0;  // The journal's last update, without that of the restore.
  int64_t num_unfinished_jobs = 0;
  int64_t num_stopped_attempts = 0;
};

// Makes a data directory from a backup, for a server that replaces the one that was backed up.
//
//   1. Every file is copied to "<data_dir>.incomplete" and compared with the manifest.
//   2. The journal gets an update RestoreServer (journal.proto): a new epoch, and higher numbers of the next attempts.
//      Live attempts are asked to save a checkpoint and leave.
//   3. The telemetry that the journal does not account for is deleted.
//   4. The folder gets its final name.
//
// Because of the epoch, a worker that has followed the restored server follows the old one no more, should that still
// run; the old one refuses it (SERVER_SUPERSEDED).
//
// If root restores into a folder that belongs to another user, the restored files belong to that user too. A restore
// that failed or was killed leaves at most a folder "<data_dir>.incomplete", which no server uses and which the next
// restore removes.
//
// Errors of ReadManifest; DATA_LOSS (BACKUP_DAMAGED) if a file is missing or is not that of the manifest;
// FAILED_PRECONDITION with reason DATA_DIRECTORY_LOCKED if a server uses `data_dir`, CANNOT_WRITE, ALREADY_RUNNING or
// NEWER_SCHEMA.
absl::StatusOr<RestoreSummary> RestoreBackup(const RestoreOptions& options);

}  // namespace ampd::server
