#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"

namespace ampd::server {

struct BackupOptions {
  std::string data_dir;
  std::string out;  // A folder that does not exist yet, or is empty.
  const Clock* clock = nullptr;
  // Called before each step, with what it does: a file's path, or "rename". Its error stops the backup. May be null.
  std::function<absl::Status(const std::string& step)> before_step;
};

struct BackupSummary {
  uint64_t last_update = 0;  // The journal's last update.
  int64_t num_files = 0;
  int64_t num_bytes = 0;
};

// Makes a backup of a server's data directory, whether a server runs on it or not. The server is never stopped: the
// databases are read through transactions of their own (SQLite's write-ahead log), and the lock is not needed.
//
// The backup has one state: that of the journal at the moment when the backup began.
//
//   1. Transactions that only read begin on the journal, then on the other databases, within milliseconds. So these
//      have everything that the journal knows, and perhaps a little more. A restore removes what is more from the
//      telemetry; samples of unknown jobs are removed by the server when it starts.
//   2. The databases are copied as these transactions see them.
//   3. Each content that the copied artifact index names gets a second name in the backup, or is copied. If it was
//      deleted meanwhile, its names are removed from the copied index.
//   4. The audit log, the certificates and the first admin's token are copied.
//   5. The manifest is written, and the folder gets its final name.
//
// All files are on disk before the folder has its name. A backup that failed or was killed leaves at most a folder
// "<out>.incomplete", which the next one removes.
//
// FAILED_PRECONDITION with reason DATA_DIRECTORY_UNUSABLE if `data_dir` has no journal, NEWER_SCHEMA, CANNOT_WRITE or
// ALREADY_RUNNING; DATA_LOSS (STORE_CORRUPT) if the journal cannot be replayed or a content is damaged.
absl::StatusOr<BackupSummary> MakeBackup(const BackupOptions& options);

}  // namespace ampd::server
