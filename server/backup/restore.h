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
  // Called before each step with its name, which is a file's path, "journal", "metrics" or "rename". If the function
  // returns an error, the restore stops. May be null.
  std::function<absl::Status(const std::string& step)> before_step;
};

struct RestoreSummary {
  absl::Time backup_time;
  uint64_t last_update = 0;  // Index of the journal's last update before the update RestoreServer.
  int64_t num_unfinished_jobs = 0;
  int64_t num_stopped_attempts = 0;
};

// Makes a data directory from a backup, for a server that replaces the one that was backed up.
//
//   1. Every file is copied to "<data_dir>.incomplete" and compared with the manifest.
//   2. The journal gets an update RestoreServer (journal.proto), which sets a new epoch and raises the numbers of the
//      next attempts. The workers ask live attempts to save a checkpoint and exit.
//   3. The telemetry that the journal does not account for is deleted.
//   4. The folder gets its final name.
//
// If the old server still runs, the epoch separates the two: a worker that has once followed the restored server does
// not return to the old server, and the old server refuses that worker (SERVER_SUPERSEDED).
//
// If root restores into a folder that belongs to another user, the restored files belong to that user too. A restore
// that failed or was killed leaves at most a folder "<data_dir>.incomplete", which no server uses and which the next
// restore removes.
//
// Errors: those of ReadManifest, and
//
//   DATA_LOSS            (BACKUP_DAMAGED) a file is missing or differs from the manifest
//   FAILED_PRECONDITION  (DATA_DIRECTORY_LOCKED) a server uses `data_dir`
//                        (CANNOT_WRITE, ALREADY_RUNNING) as StagingFolder::Create
//                        (NEWER_SCHEMA) a newer server wrote the backup
absl::StatusOr<RestoreSummary> RestoreBackup(const RestoreOptions& options);

}  // namespace ampd::server
