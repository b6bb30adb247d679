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

// One file of a backup.
struct BackupFile {
  std::string path;  // Relative to the backup's folder, and to the data directory.
  int64_t size_bytes = 0;
  std::string sha256;
  mode_t mode = 0600;  // The mode in a data directory: 0600 or 0644. In the backup every file has 0600.
};

// The manifest of a backup, which lists its files. It is the file "manifest.json" of the backup, which is written last:
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

// Parses a manifest. DATA_LOSS (reason BACKUP_DAMAGED) if the text is malformed; FAILED_PRECONDITION (NEWER_BACKUP) if
// its format is later than this server's.
absl::StatusOr<BackupManifest> ParseManifest(std::string_view text);

// Reads the manifest of the backup in `folder`. FAILED_PRECONDITION (NOT_A_BACKUP) if the folder has no manifest;
// otherwise the errors of ParseManifest.
absl::StatusOr<BackupManifest> ReadManifest(const std::string& folder);

}  // namespace ampd::server
