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
#include "base/tenants.h"

namespace ampd::server {

inline constexpr int64_t kArtifactSchema = 2;

// A name of a stored content.
struct ArtifactRow {
  v1::Artifact artifact;
  int32_t attempt = 0;  // The attempt that made a sample; 0 for an upload.
  absl::Time use_time;  // When somebody last asked for it; only for an upload.
};

// What identifies an artifact in the store: for a sample its name; for an upload its SHA-256, after "<tenant>/" unless
// that is the default tenant.
std::string KeyOf(const v1::Artifact& artifact);
std::string UploadKey(const std::string& tenant, const std::string& sha256);

// The names of all artifacts, in a SQLite file of their own (schema 2: one table, one row per name; schema 1 had no
// tenants). When a change returns, it is on disk. Thread-compatible.
class ArtifactIndex {
 public:
  // Creates the file if it does not exist. FAILED_PRECONDITION with reason NEWER_SCHEMA when a newer server wrote it.
  static absl::StatusOr<ArtifactIndex> Open(const std::string& path);
  // Reads a file that another process may write to, or a copy. Only the functions that change nothing may be called.
  // DATA_LOSS if its schema is an older one.
  static absl::StatusOr<ArtifactIndex> OpenToRead(SqliteDatabase database);

  // Adds the name, or replaces it if it exists. Either way it becomes the newest name.
  absl::Status Put(const ArtifactRow& row);
  // `key`: of KeyOf.
  absl::StatusOr<std::optional<ArtifactRow>> Find(const std::string& key);
  // The uploads of this content, the oldest first.
  absl::StatusOr<std::vector<ArtifactRow>> UploadsOf(const std::string& sha256);
  absl::Status Remove(const std::string& key);
  // Removes all names of the content with this SHA-256.
  absl::Status RemoveContent(const std::string& sha256);
  absl::Status SetUseTime(const std::string& key, absl::Time time);

  absl::StatusOr<bool> HasContent(const std::string& sha256);
  // Lists at most `limit` names of these tenants with a number below `before`, newest first, each with its number.
  // Lists the names of one job or, if `job` is empty, those of all jobs and uploads.
  absl::StatusOr<std::vector<std::pair<int64_t, ArtifactRow>>> List(const std::string& job, const Tenants& tenants,
                                                                    int64_t before, int limit);
  // Counts the names of these tenants: those of one job or, if `job` is empty, those of all jobs and uploads.
  absl::StatusOr<int64_t> Count(const std::string& job, const Tenants& tenants);
  // The size of the tenant's artifacts together. What several names share counts for each.
  absl::StatusOr<int64_t> TenantBytes(const std::string& tenant);
  absl::StatusOr<std::vector<ArtifactRow>> Uploads();
  // The size of each content by its digest.
  absl::StatusOr<std::map<std::string, int64_t>> Contents();
  // The jobs that have samples.
  absl::StatusOr<std::vector<std::string>> Jobs();

 private:
  explicit ArtifactIndex(SqliteDatabase database) : database_(std::move(database)) {}
  absl::StatusOr<int64_t> SchemaVersion();
  absl::Status CreateSchema();
  absl::Status PrepareStatements();

  SqliteDatabase database_;
  SqliteStatement put_, find_, remove_, remove_content_, set_use_time_, has_content_, list_all_, list_job_, count_,
      uploads_, uploads_of_, tenant_bytes_, contents_, jobs_;
};

}  // namespace ampd::server
