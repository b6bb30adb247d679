#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/artifact_service.pb.h"
#include "base/io/sqlite.h"

namespace ampd::server {

// A name of a stored content.
struct ArtifactRow {
  v1::Artifact artifact;
  int32_t attempt = 0;  // The attempt that made a sample; 0 for an upload.
  absl::Time use_time;  // When somebody last asked for it; only for an upload.
};

// The names of all artifacts, in a SQLite file of their own (schema 1: one table, one row per name). When a change
// returns, it is on disk. Thread-compatible.
class ArtifactIndex {
 public:
  // Creates the file if it does not exist. FAILED_PRECONDITION with reason NEWER_SCHEMA when a newer server wrote it.
  static absl::StatusOr<ArtifactIndex> Open(const std::string& path);

  // Adds the name, or replaces it if it exists. Either way it becomes the newest name.
  absl::Status Put(const ArtifactRow& row);
  absl::StatusOr<std::optional<ArtifactRow>> Find(const std::string& name);
  absl::Status Remove(const std::string& name);
  // Removes all names of the content with this SHA-256.
  absl::Status RemoveContent(const std::string& sha256);
  absl::Status SetUseTime(const std::string& name, absl::Time time);

  absl::StatusOr<bool> HasContent(const std::string& sha256);
  // Lists at most `limit` names with a number below `before`, newest first, each with its number. Lists the names of
  // one job or, if `job` is empty, those of all jobs and uploads.
  absl::StatusOr<std::vector<std::pair<int64_t, ArtifactRow>>> List(const std::string& job, int64_t before, int limit);
  // Counts the names of one job or, if `job` is empty, those of all jobs and uploads.
  absl::StatusOr<int64_t> Count(const std::string& job);
  absl::StatusOr<std::vector<ArtifactRow>> Uploads();
  // The size of each content by its digest.
  absl::StatusOr<std::map<std::string, int64_t>> Contents();
  // The jobs that have samples.
  absl::StatusOr<std::vector<std::string>> Jobs();

 private:
  explicit ArtifactIndex(SqliteDatabase database) : database_(std::move(database)) {}
  absl::Status CreateSchema();
  absl::Status PrepareStatements();

  SqliteDatabase database_;
  SqliteStatement put_, find_, remove_, remove_content_, set_use_time_, has_content_, list_all_, list_job_, count_,
      uploads_, contents_, jobs_;
};

}  // namespace ampd::server
