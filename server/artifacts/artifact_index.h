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
#include "base/api/tenants.h"
#include "base/io/sqlite.h"

namespace ampd::server {

inline constexpr int64_t kArtifactSchema = 2;

// An entry of the index: an artifact, which is a name for a stored file.
struct ArtifactRow {
  v1::Artifact artifact;
  int32_t attempt = 0;  // The attempt that generated the sample; 0 for an upload.
  absl::Time use_time;  // When somebody last asked for the upload; unset for a sample.
};

// Returns the key of an artifact in the store. For a sample that a job generated, the key is the artifact's name. For
// an upload, it is the SHA-256, with "<tenant>/" before it unless the tenant is the default one.
std::string KeyOf(const v1::Artifact& artifact);
// REQUIRES: `sha256` is a digest. With other texts, the result could be the key of another tenant's upload.
std::string UploadKey(const std::string& tenant, const std::string& sha256);

// The names of all artifacts, in a SQLite file of their own. Schema 2 has one table with one row per name; schema 1 had
// no tenants. A change is on disk when its function returns. Thread-compatible.
class ArtifactIndex {
 public:
  // Creates the file if it does not exist. FAILED_PRECONDITION with reason NEWER_SCHEMA if a newer server wrote the
  // file.
  static absl::StatusOr<ArtifactIndex> Open(const std::string& path);
  // Opens a file only for reading: a copy, or a file that another process may write to. REQUIRES: the caller calls no
  // function that changes the index. DATA_LOSS if the schema is older than the current one.
  static absl::StatusOr<ArtifactIndex> OpenToRead(SqliteDatabase database);

  // Adds the name, or replaces it if it exists. Either way it becomes the newest name.
  absl::Status Put(const ArtifactRow& row);
  // Returns the entry with this key, which is the result of KeyOf; nullopt if there is none.
  absl::StatusOr<std::optional<ArtifactRow>> Find(const std::string& key);
  // Returns the uploads whose content has this SHA-256, the oldest first.
  absl::StatusOr<std::vector<ArtifactRow>> UploadsOf(const std::string& sha256);
  // Returns the keys of all names of the content with this SHA-256.
  absl::StatusOr<std::vector<std::string>> KeysOf(const std::string& sha256);
  absl::Status Remove(const std::string& key);
  // Removes all names of the content with this SHA-256.
  absl::Status RemoveContent(const std::string& sha256);
  absl::Status SetUseTime(const std::string& key, absl::Time time);

  absl::StatusOr<bool> HasContent(const std::string& sha256);
  // Lists at most `limit` names of these tenants with a number below `before`, newest first, each with its number. If
  // `job` is empty, lists the names of all jobs and of uploads; otherwise only the names of this job's artifacts.
  absl::StatusOr<std::vector<std::pair<int64_t, ArtifactRow>>> List(const std::string& job, const Tenants& tenants,
                                                                    int64_t before, int limit);
  // Counts the artifacts of these tenants that `job` has made or, if `job` is empty, all their artifacts.
  absl::StatusOr<int64_t> Count(const std::string& job, const Tenants& tenants);
  // Returns the total size of the tenant's artifacts. A file with several names counts once for each name.
  absl::StatusOr<int64_t> TenantBytes(const std::string& tenant);
  absl::StatusOr<std::vector<ArtifactRow>> Uploads();
  // Returns the size of each stored file. The key is the SHA-256 of its content.
  absl::StatusOr<std::map<std::string, int64_t>> Contents();
  // Returns the jobs with generated samples in the store.
  absl::StatusOr<std::vector<std::string>> Jobs();

 private:
  explicit ArtifactIndex(SqliteDatabase database) : database_(std::move(database)) {}
  absl::StatusOr<int64_t> SchemaVersion();
  absl::Status CreateSchema();
  absl::Status PrepareStatements();

  SqliteDatabase database_;
  SqliteStatement put_, find_, remove_, remove_content_, set_use_time_, has_content_, list_all_, list_job_, count_,
      uploads_, uploads_of_, keys_of_, tenant_bytes_, contents_, jobs_;
};

}  // namespace ampd::server
