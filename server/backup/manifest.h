#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ampd::server {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr int kBackupFormat = 1;

// A file of a backup.
struct BackupFile {
  std::string path;  // Below the backup's folder, and below the data directory.
  int64_t size_bytes = 0;
  std::string sha256;
  mode_t mode = 0600;  // In a data directory: 0600 or 0644. In the backup it is always 0600.
};

// What a backup has. It is the file "manifest.json" of the backup, which is written last:
//
//   {"format": 1, "ampd": "1.2.3", "time": "2026-01-31T12:00:00Z", "epoch": 1, "last_update": 4711,
//    "files": [{"path": "journal.db", "size_bytes": 4096, "sha256": "...", "mode": "0600"}, ...]}
//
// `epoch` and `last_update` are those of the journal. A later format has a higher number.
struct BackupManifest {
  std::string ampd_version;
  absl::Time time;
  uint64_t epoch = 0;
  uint64_t last_update = 0;
  std::vector<BackupFile> files;
};

std::string ToJson(const BackupManifest& manifest);

// DATA_LOSS (reason BACKUP_DAMAGED) for a text that is no manifest; FAILED_PRECONDITION (NEWER_BACKUP) for a later
// format.
absl::StatusOr<BackupManifest> ParseManifest(std::string_view text);

// Reads the manifest of the backup in `folder`. Errors of ParseManifest; FAILED_PRECONDITION (NOT_A_BACKUP) if there is
// none.
absl::StatusOr<BackupManifest> ReadManifest(const std::string& folder);

}  // namespace ampd::server
