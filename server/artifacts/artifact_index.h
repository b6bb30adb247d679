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

// One name of a content.
struct ArtifactRow {
  v1::Artifact artifact;
  int32_t attempt = 0;  // that made a sample; of an upload 0
  absl::Time use_time;  // of an upload: when somebody last asked for it
};

// The names of all artifacts, in a SQLite file of their own (schema 1: one table, a row a name). What is answered is on
// disk. Thread-compatible.
class ArtifactIndex {
 public:
  // Makes the file when it is not there. FAILED_PRECONDITION with reason NEWER_SCHEMA when a newer server wrote it.
  static absl::StatusOr<ArtifactIndex> Open(const std::string& path);

  // Adds the name, or puts it anew, as the newest one, where it is there.
  absl::Status Put(const ArtifactRow& row);
  absl::StatusOr<std::optional<ArtifactRow>> Find(const std::string& name);
  absl::Status Remove(const std::string& name);
  // All names of a content.
  absl::Status RemoveContent(const std::string& sha256);
  absl::Status SetUseTime(const std::string& name, absl::Time time);

  absl::StatusOr<bool> HasContent(const std::string& sha256);
  // At most `limit` names that were put before number `before`, newest first, each with its number: of one job, or of
  // all and of uploads where `job` is empty.
  absl::StatusOr<std::vector<std::pair<int64_t, ArtifactRow>>> List(const std::string& job, int64_t before, int limit);
  // Names of one job, or of all and of uploads where `job` is empty.
  absl::StatusOr<int64_t> Count(const std::string& job);
  absl::StatusOr<std::vector<ArtifactRow>> Uploads();
  // The size of each content, by its digest.
  absl::StatusOr<std::map<std::string, int64_t>> Contents();
  // Jobs that have samples.
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
