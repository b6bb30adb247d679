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
  // Called before each step with its name, which is a file's path or "rename". If the function returns an error, the
  // backup stops. May be null.
  std::function<absl::Status(const std::string& step)> before_step;
};

struct BackupSummary {
  uint64_t last_update = 0;  // Index of the last update in the journal.
  int64_t num_files = 0;
  int64_t num_bytes = 0;
};

// Makes a backup of a server's data directory, whether a server runs on it or not. The server keeps running: the backup
// reads the databases in transactions of its own (SQLite's write-ahead log), and does not need the directory's lock.
//
// The backup has the state of the journal at the moment when the backup began.
//
//   1. Read transactions begin on the journal, then on the other databases, within milliseconds. So the other databases
//      have everything that the journal knows, and perhaps a little more. A restore removes the surplus from the
//      telemetry; the server removes generated samples of unknown jobs when it starts.
//   2. The databases are copied as these transactions see them.
//   3. Each artifact's file that the copied index names is hard-linked into the backup, or copied. If the file was
//      deleted meanwhile, its names are removed from the copied index.
//   4. The audit log, the certificates and the first admin's token are copied.
//   5. The manifest is written, and the folder gets its final name.
//
// All files are on disk before the folder gets its final name. A backup that failed or was killed leaves at most a
// folder "<out>.incomplete", which the next backup removes. Such a folder can be restored only if the process was
// killed after it had written the manifest: then no file is missing.
//
// Errors:
//
//   FAILED_PRECONDITION  (DATA_DIRECTORY_UNUSABLE) `data_dir` has no journal
//                        (NEWER_SCHEMA) a newer server wrote the journal or another database
//                        (CANNOT_WRITE, ALREADY_RUNNING) as StagingFolder::Create
//   DATA_LOSS            (STORE_CORRUPT) the journal cannot be replayed, or an artifact's file is damaged
absl::StatusOr<BackupSummary> MakeBackup(const BackupOptions& options);

}  // namespace ampd::server
