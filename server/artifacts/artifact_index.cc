#include "server/artifacts/artifact_index.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::server {
namespace {

// Each name gets a number, which is never used again. Thanks to the numbers a listing can resume where it stopped, even
// if names were replaced in the meantime. The number is the larger of two values: the time of the entry in
// microseconds, and the last number plus one. A plain count would not do: page tokens contain the number, so a count
// would reveal how much other tenants upload.
constexpr char kSchema[] = R"sql(
BEGIN IMMEDIATE;
CREATE TABLE artifacts(number INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB UNIQUE NOT NULL, sha256 BLOB NOT NULL,
  size INTEGER NOT NULL, job BLOB NOT NULL, attempt INTEGER NOT NULL, use_time INTEGER NOT NULL, content BLOB NOT NULL,
  tenant TEXT NOT NULL DEFAULT 'default');
CREATE INDEX artifacts_by_content ON artifacts(sha256);
CREATE INDEX artifacts_by_job ON artifacts(job, number);
PRAGMA user_version=2;
COMMIT;
)sql";

// Schema 1 had no tenants. Everything in a file with schema 1 belongs to the default tenant.
constexpr char kAddTenants[] = R"sql(
BEGIN IMMEDIATE;
ALTER TABLE artifacts ADD COLUMN tenant TEXT NOT NULL DEFAULT 'default';
PRAGMA user_version=2;
COMMIT;
)sql";

// An SQL condition: the row belongs to one of the tenants in parameter 4, a JSON list. An empty parameter 4 means all
// tenants.
#define AMPD_OF_TENANTS "(?4=x'' OR CAST(tenant AS TEXT) IN (SELECT value FROM json_each(CAST(?4 AS TEXT))))"

// Converts the current row. REQUIRES: the statement's first columns are attempt, use_time and content.
absl::StatusOr<ArtifactRow> ReadRow(const SqliteStatement& statement) {
  ArtifactRow row;
  row.attempt = static_cast<int32_t>(statement.Int(0));
  row.use_time = absl::FromUnixMicros(statement.Int(1));
  const std::string_view content = statement.Bytes(2);
  if (!row.artifact.ParseFromArray(content.data(), static_cast<int>(content.size()))) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", "the store is damaged: an artifact's row is malformed");
  }
  row.artifact.set_tenant(TenantOrDefault(row.artifact.tenant()));
  return row;
}

// Calls `take` with every row. Always resets the statement afterwards.
template <typename Take>
absl::Status ForEachRow(SqliteStatement& statement, Take take) {
  for (;;) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row) {
      return absl::OkStatus();
    }
    if (absl::Status taken = take(); !taken.ok()) {
      statement.Reset();
      return taken;
    }
  }
}

// Returns the names of the tenants as a JSON list of strings, or an empty string for all tenants. AMPD_OF_TENANTS takes
// this text as parameter 4. Tenant names need no escapes in JSON.
std::string ListOf(const Tenants& tenants) {
  return tenants.all()     ? ""
         : tenants.empty() ? "[]"
                           : absl::StrCat("[\"", absl::StrJoin(tenants.names(), "\",\""), "\"]");
}

}  // namespace

std::string UploadKey(const std::string& tenant, const std::string& sha256) {
  return tenant == kDefaultTenant ? sha256 : absl::StrCat(tenant, "/", sha256);
}

std::string KeyOf(const v1::Artifact& artifact) {
  return artifact.job_id().empty() ? UploadKey(artifact.tenant(), artifact.sha256()) : artifact.name();
}

absl::StatusOr<ArtifactIndex> ArtifactIndex::Open(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(path, /*create=*/true));
  AMPD_RETURN_IF_ERROR(database.Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"));
  ArtifactIndex index(std::move(database));
  AMPD_RETURN_IF_ERROR(index.CreateSchema());
  AMPD_RETURN_IF_ERROR(index.PrepareStatements());
  return index;
}

absl::StatusOr<ArtifactIndex> ArtifactIndex::OpenToRead(SqliteDatabase database) {
  ArtifactIndex index(std::move(database));
  AMPD_ASSIGN_OR_RETURN(const int64_t version, index.SchemaVersion());
  if (version != kArtifactSchema) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                 absl::StrCat("the artifact index has schema ", version, ", which only a server that starts converts"));
  }
  AMPD_RETURN_IF_ERROR(index.PrepareStatements());
  return index;
}

absl::StatusOr<int64_t> ArtifactIndex::SchemaVersion() {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement version, database_.Prepare("PRAGMA user_version"));
  AMPD_RETURN_IF_ERROR(version.Step().status());
  const int64_t found = version.Int(0);
  if (found > kArtifactSchema) {
    return NewerSchema("the artifact index", found, kArtifactSchema);
  }
  return found;
}

absl::Status ArtifactIndex::CreateSchema() {
  AMPD_ASSIGN_OR_RETURN(const int64_t found, SchemaVersion());
  return found == kArtifactSchema ? absl::OkStatus() : database_.Execute(found == 0 ? kSchema : kAddTenants);
}

absl::Status ArtifactIndex::PrepareStatements() {
  const std::pair<SqliteStatement*, std::string_view> statements[] = {
      {&put_,
       "INSERT OR REPLACE INTO artifacts(number, name, sha256, size, job, attempt, use_time, content, tenant) "
       "VALUES(max(?6, coalesce((SELECT seq FROM sqlite_sequence WHERE name='artifacts'), 0) + 1),"
       "?1,?2,?3,?4,?5,?6,?7,?8)"},
      {&find_, "SELECT attempt, use_time, content FROM artifacts WHERE name=?1"},
      {&remove_, "DELETE FROM artifacts WHERE name=?1"},
      {&remove_content_, "DELETE FROM artifacts WHERE sha256=?1"},
      {&set_use_time_, "UPDATE artifacts SET use_time=?2 WHERE name=?1"},
      {&has_content_, "SELECT 1 FROM artifacts WHERE sha256=?1 LIMIT 1"},
      {&list_all_, "SELECT attempt, use_time, content, number FROM artifacts WHERE number<?1 AND " AMPD_OF_TENANTS
                   " ORDER BY number DESC LIMIT ?2"},
      {&list_job_,
       "SELECT attempt, use_time, content, number FROM artifacts WHERE job=?3 AND number<?1 AND " AMPD_OF_TENANTS
       " ORDER BY number DESC LIMIT ?2"},
      {&count_, "SELECT count(*) FROM artifacts WHERE (?1=x'' OR job=?1) AND " AMPD_OF_TENANTS},
      {&uploads_, "SELECT attempt, use_time, content FROM artifacts WHERE job=x''"},
      {&uploads_of_, "SELECT attempt, use_time, content FROM artifacts WHERE sha256=?1 AND job=x'' ORDER BY number"},
      {&keys_of_, "SELECT name FROM artifacts WHERE sha256=?1 ORDER BY name"},
      {&tenant_bytes_, "SELECT coalesce(sum(size), 0) FROM artifacts WHERE CAST(tenant AS TEXT)=CAST(?1 AS TEXT)"},
      {&contents_, "SELECT DISTINCT sha256, size FROM artifacts"},
      {&jobs_, "SELECT DISTINCT job FROM artifacts WHERE job!=x''"},
  };
  for (const auto& [statement, sql] : statements) {
    AMPD_ASSIGN_OR_RETURN(*statement, database_.Prepare(sql));
  }
  return absl::OkStatus();
}

absl::Status ArtifactIndex::Put(const ArtifactRow& row) {
  const v1::Artifact& artifact = row.artifact;
  const std::string key = KeyOf(artifact), content = artifact.SerializeAsString();
  put_.Bind(1, key).Bind(2, artifact.sha256()).Bind(3, artifact.size_bytes()).Bind(4, artifact.job_id());
  return put_.Bind(5, row.attempt)
      .Bind(6, absl::ToUnixMicros(row.use_time))
      .Bind(7, content)
      .Bind(8, artifact.tenant())
      .Run();
}

absl::StatusOr<std::optional<ArtifactRow>> ArtifactIndex::Find(const std::string& key) {
  AMPD_ASSIGN_OR_RETURN(const bool found, find_.Bind(1, key).Step());
  if (!found) {
    return std::nullopt;
  }
  absl::StatusOr<ArtifactRow> row = ReadRow(find_);
  find_.Reset();
  return row;
}

absl::Status ArtifactIndex::Remove(const std::string& key) { return remove_.Bind(1, key).Run(); }

absl::Status ArtifactIndex::RemoveContent(const std::string& sha256) { return remove_content_.Bind(1, sha256).Run(); }

absl::Status ArtifactIndex::SetUseTime(const std::string& key, absl::Time time) {
  return set_use_time_.Bind(1, key).Bind(2, absl::ToUnixMicros(time)).Run();
}

absl::StatusOr<bool> ArtifactIndex::HasContent(const std::string& sha256) {
  absl::StatusOr<bool> found = has_content_.Bind(1, sha256).Step();
  has_content_.Reset();
  return found;
}

absl::StatusOr<std::vector<std::pair<int64_t, ArtifactRow>>> ArtifactIndex::List(const std::string& job,
                                                                                 const Tenants& tenants, int64_t before,
                                                                                 int limit) {
  SqliteStatement& list = job.empty() ? list_all_ : list_job_;
  const std::string of = ListOf(tenants);
  list.Bind(1, before).Bind(2, limit).Bind(4, of);
  if (!job.empty()) {
    list.Bind(3, job);
  }
  std::vector<std::pair<int64_t, ArtifactRow>> rows;
  AMPD_RETURN_IF_ERROR(ForEachRow(list, [&]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(ArtifactRow row, ReadRow(list));
    rows.emplace_back(list.Int(3), std::move(row));
    return absl::OkStatus();
  }));
  return rows;
}

absl::StatusOr<int64_t> ArtifactIndex::Count(const std::string& job, const Tenants& tenants) {
  const std::string of = ListOf(tenants);
  AMPD_RETURN_IF_ERROR(count_.Bind(1, job).Bind(4, of).Step().status());
  const int64_t count = count_.Int(0);
  count_.Reset();
  return count;
}

absl::StatusOr<int64_t> ArtifactIndex::TenantBytes(const std::string& tenant) {
  AMPD_RETURN_IF_ERROR(tenant_bytes_.Bind(1, tenant).Step().status());
  const int64_t bytes = tenant_bytes_.Int(0);
  tenant_bytes_.Reset();
  return bytes;
}

absl::StatusOr<std::vector<ArtifactRow>> ArtifactIndex::Uploads() {
  std::vector<ArtifactRow> rows;
  AMPD_RETURN_IF_ERROR(ForEachRow(uploads_, [&]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(ArtifactRow row, ReadRow(uploads_));
    rows.push_back(std::move(row));
    return absl::OkStatus();
  }));
  return rows;
}

absl::StatusOr<std::vector<ArtifactRow>> ArtifactIndex::UploadsOf(const std::string& sha256) {
  uploads_of_.Bind(1, sha256);
  std::vector<ArtifactRow> rows;
  AMPD_RETURN_IF_ERROR(ForEachRow(uploads_of_, [&]() -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(ArtifactRow row, ReadRow(uploads_of_));
    rows.push_back(std::move(row));
    return absl::OkStatus();
  }));
  return rows;
}

absl::StatusOr<std::vector<std::string>> ArtifactIndex::KeysOf(const std::string& sha256) {
  keys_of_.Bind(1, sha256);
  std::vector<std::string> keys;
  AMPD_RETURN_IF_ERROR(ForEachRow(keys_of_, [&] {
    keys.emplace_back(keys_of_.Bytes(0));
    return absl::OkStatus();
  }));
  return keys;
}

absl::StatusOr<std::map<std::string, int64_t>> ArtifactIndex::Contents() {
  std::map<std::string, int64_t> contents;
  AMPD_RETURN_IF_ERROR(ForEachRow(contents_, [&] {
    contents[std::string(contents_.Bytes(0))] = contents_.Int(1);
    return absl::OkStatus();
  }));
  return contents;
}

absl::StatusOr<std::vector<std::string>> ArtifactIndex::Jobs() {
  std::vector<std::string> jobs;
  AMPD_RETURN_IF_ERROR(ForEachRow(jobs_, [&] {
    jobs.emplace_back(jobs_.Bytes(0));
    return absl::OkStatus();
  }));
  return jobs;
}

}  // namespace ampd::server
