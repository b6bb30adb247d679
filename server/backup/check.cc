#include "server/backup/check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/io/private_folder.h"
#include "base/io/sqlite.h"
#include "base/status_macros.h"
#include "server/artifacts/artifact_index.h"
#include "server/backup/data_files.h"
#include "server/backup/file_copy.h"
#include "server/backup/manifest.h"
#include "server/ledger/journal_reader.h"
#include "server/ledger/ledger.h"
#include "server/state/job_rules.h"
#include "server/telemetry/metric_writer.h"
#include "server/tokens/token_store.h"

namespace ampd::server {
namespace {

constexpr char kRestoreIt[] = "stop the server, and restore the newest backup that ampd-server check finds undamaged";
constexpr int kMaxFaults = 20;  // At most this many damaged artifacts are listed.

std::string Counted(int64_t count, const char* what) { return absl::StrCat(count, " ", what, count == 1 ? "" : "s"); }

// Returns the first fault that SQLite finds in the database's pages and indexes, or an empty string if there is none.
absl::StatusOr<std::string> FindFault(SqliteDatabase& database) {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement check, database.Prepare("PRAGMA integrity_check(1)"));
  AMPD_ASSIGN_OR_RETURN(const bool has_row, check.Step());
  const std::string answer(has_row ? check.Bytes(0) : "no answer");
  return answer == "ok" ? "" : answer;
}

absl::StatusOr<int64_t> SchemaOf(SqliteDatabase& database) {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement query, database.Prepare("PRAGMA user_version"));
  AMPD_RETURN_IF_ERROR(query.Step().status());
  return query.Int(0);
}

// If the process runs as root, it acts as the owner of the folder while this object lives. Otherwise the checks of file
// permissions would take the owner for another user.
class OwnersView {
 public:
  explicit OwnersView(const std::string& folder) {
    struct stat status = {};
    is_root_ =
        geteuid() == 0 && stat(folder.c_str(), &status) == 0 && status.st_uid != 0 && seteuid(status.st_uid) == 0;
  }
  ~OwnersView() {
    if (is_root_ && seteuid(0) != 0) {
      std::abort();
    }
  }
  OwnersView(const OwnersView&) = delete;
  OwnersView& operator=(const OwnersView&) = delete;

 private:
  bool is_root_ = false;
};

// Checks one folder. Run() calls the other functions in the order of their declaration.
class Check {
 public:
  Check(std::string folder, bool is_backup) : folder_(std::move(folder)), is_backup_(is_backup) {}

  CheckReport Run();
  // Compares the files with the manifest.
  void CheckManifest();
  CheckReport TakeReport() { return std::move(report_); }

 private:
  std::string Path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }
  bool Has(const std::string& name) const { return access(Path(name).c_str(), F_OK) == 0; }
  void Add(CheckLine::Verdict verdict, std::string what, std::string text) {
    report_.lines.push_back({verdict, std::move(what), std::move(text)});
  }
  void AddFault(const std::string& what, const absl::Status& status);
  absl::StatusOr<SqliteDatabase> Open(const std::string& name) const {
    return is_backup_ ? SqliteDatabase::OpenUnchanging(Path(name)) : SqliteDatabase::OpenReader(Path(name));
  }

  void CheckPermissions();
  // Checks the database's pages and schema, then calls `read`. If all is well, the line in the report ends with the
  // text that `read` returns.
  void CheckDatabase(const std::string& name, int64_t schema,
                     const std::function<absl::StatusOr<std::string>(SqliteDatabase database)>& read);
  absl::StatusOr<std::string> ReadJournal(SqliteDatabase database);
  absl::StatusOr<std::string> ReadArtifactIndex(SqliteDatabase database);
  void CheckNeeded();
  void CheckContents();
  void CheckContent(const std::string& sha256, int64_t size_bytes);
  // Whether the server has removed all names of this file since the check began.
  bool WasDeleted(const std::string& sha256) const;
  void CheckOrphans();
  void CheckAuditLog();

  const std::string folder_;
  const bool is_backup_;
  CheckReport report_;
  std::map<std::string, int64_t> contents_;                  // Size of each artifact's file, by its digest.
  std::set<std::string> uploads_;                            // Results of UploadKey.
  std::vector<std::pair<std::string, std::string>> needed_;  // An upload's key, and an unfinished job that names it.
  int num_faults_ = 0;
};

void Check::AddFault(const std::string& what, const absl::Status& status) {
  const bool says_what_to_do = ReasonOf(status) == "NEWER_SCHEMA";
  Add(CheckLine::kWrong, what,
      absl::StrCat(std::string(status.message()),
                   says_what_to_do ? "" : absl::StrCat("; ", is_backup_ ? "use another backup" : kRestoreIt)));
}

void Check::CheckPermissions() {
  std::vector<std::string> paths = {folder_};
  for (const char* const folder : {"", kArtifactFolder, kTlsFolder}) {
    const std::string path = *folder == '\0' ? folder_ : Path(folder);
    if (*folder != '\0' && Has(folder)) {
      paths.push_back(path);
    }
    for (const std::string& file : FilesIn(path)) {
      paths.push_back(absl::StrCat(path, "/", file));
    }
  }
  const size_t before = report_.lines.size();
  const OwnersView view(folder_);
  for (const std::string& path : paths) {
    struct stat status = {};
    if (const absl::Status written = CheckOnlyOwnerWrites(path, is_backup_ ? "the backup" : "the data directory");
        !written.ok()) {
      Add(CheckLine::kWrong, "permissions", std::string(written.message()));
    } else if (stat(path.c_str(), &status) == 0 && (status.st_mode & S_IROTH) != 0 &&
               !absl::StartsWith(path, Path(kTlsFolder) + "/")) {
      Add(CheckLine::kWrong, "permissions",
          absl::StrCat("every user can read ", path, "; correct it with: chmod o-rwx ", path));
    }
  }
  if (report_.lines.size() == before) {
    Add(CheckLine::kOk, "permissions",
        absl::StrCat(Counted(static_cast<int64_t>(paths.size()), "file"), " and folders, for their owner only"));
  }
}

void Check::CheckDatabase(const std::string& name, int64_t schema,
                          const std::function<absl::StatusOr<std::string>(SqliteDatabase database)>& read) {
  if (!Has(name)) {
    Add(name == kJournalFile ? CheckLine::kWrong : CheckLine::kNote, name,
        name == kJournalFile ? "there is none; give the --data-dir of a server" : "there is none; the server makes it");
    return;
  }
  const auto check = [&]() -> absl::StatusOr<std::string> {
    AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, Open(name));
    AMPD_ASSIGN_OR_RETURN(const std::string fault, FindFault(database));
    if (!fault.empty()) {
      return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT", absl::StrCat("it is damaged: ", fault));
    }
    AMPD_ASSIGN_OR_RETURN(const int64_t found, SchemaOf(database));
    if (found > schema) {
      return NewerSchema("it", found, schema);
    }
    AMPD_ASSIGN_OR_RETURN(const std::string text, read(std::move(database)));
    return absl::StrCat("undamaged, schema ", found, text.empty() ? "" : "; ", text);
  };
  const absl::StatusOr<std::string> text = check();
  if (text.ok()) {
    Add(CheckLine::kOk, name, *text);
  } else {
    AddFault(name, text.status());
  }
}

absl::StatusOr<std::string> Check::ReadJournal(SqliteDatabase database) {
  AMPD_ASSIGN_OR_RETURN(JournalReader journal, JournalReader::Open(std::move(database)));
  AMPD_ASSIGN_OR_RETURN(const Journal::Recovered recovered, journal.Recover());
  ClusterState state;
  AMPD_ASSIGN_OR_RETURN(const uint64_t last, Replay(recovered, &state, /*effects=*/nullptr));
  int64_t num_finished = 0;
  AMPD_RETURN_IF_ERROR(journal.ForEachFinished([&](const internal::JobRecord&) {
    ++num_finished;
    return absl::OkStatus();
  }));
  for (const auto& [order, record] : state.jobs()) {
    const v1::Job& job = record->job();
    if (const std::string& artifact = job.spec().model().exported().artifact();
        !artifact.empty() && !IsTerminal(job.state())) {
      needed_.emplace_back(UploadKey(job.tenant(), artifact), job.id());
    }
  }
  return absl::StrCat("replayed up to update ", last, ": ", Counted(static_cast<int64_t>(state.jobs().size()), "job"),
                      " in memory, ", num_finished, " in the history, ",
                      Counted(static_cast<int64_t>(state.workers().size()), "worker"));
}

absl::StatusOr<std::string> Check::ReadArtifactIndex(SqliteDatabase database) {
  AMPD_ASSIGN_OR_RETURN(ArtifactIndex index, ArtifactIndex::OpenToRead(std::move(database)));
  AMPD_ASSIGN_OR_RETURN(contents_, index.Contents());
  AMPD_ASSIGN_OR_RETURN(const std::vector<ArtifactRow> uploads, index.Uploads());
  for (const ArtifactRow& row : uploads) {
    uploads_.insert(KeyOf(row.artifact));
  }
  AMPD_ASSIGN_OR_RETURN(const int64_t num_names, index.Count("", Tenants::All()));
  return absl::StrCat(Counted(num_names, "name"), " of ", Counted(static_cast<int64_t>(contents_.size()), "content"));
}

void Check::CheckNeeded() {
  for (const auto& [key, job] : needed_) {
    if (!uploads_.contains(key)) {
      Add(CheckLine::kWrong, kArtifactIndexFile,
          absl::StrCat("the job ", job, " has not ended and needs the artifact ", key,
                       ", which is not there; upload its file again"));
    }
  }
}

bool Check::WasDeleted(const std::string& sha256) const {
  if (is_backup_) {
    return false;
  }
  absl::StatusOr<SqliteDatabase> database = Open(kArtifactIndexFile);
  absl::StatusOr<ArtifactIndex> index =
      database.ok() ? ArtifactIndex::OpenToRead(*std::move(database)) : database.status();
  return index.ok() && !index->HasContent(sha256).value_or(true);
}

void Check::CheckContent(const std::string& sha256, int64_t size_bytes) {
  const std::string name = absl::StrCat(kArtifactFolder, "/", sha256);
  const absl::StatusOr<FileDigest> digest = DigestOf(Path(name));
  const bool is_whole = digest.ok() && digest->sha256 == sha256 && digest->size_bytes == size_bytes;
  if (is_whole || (absl::IsNotFound(digest.status()) && WasDeleted(sha256)) || ++num_faults_ > kMaxFaults) {
    return;
  }
  const std::string what = absl::IsNotFound(digest.status()) ? "it is missing"
                           : !digest.ok() ? absl::StrCat("it ", std::string(digest.status().message()))
                                          : "its content has another SHA-256 or size, so it is damaged";
  Add(CheckLine::kWrong, name,
      absl::StrCat(what, is_backup_
                             ? "; use another backup"
                             : absl::StrCat("; copy it from a backup, or delete it: ampctl artifact delete ", sha256)));
}

void Check::CheckContents() {
  int64_t num_bytes = 0;
  for (const auto& [sha256, size_bytes] : contents_) {
    CheckContent(sha256, size_bytes);
    num_bytes += size_bytes;
  }
  if (num_faults_ > kMaxFaults) {
    Add(CheckLine::kWrong, kArtifactFolder,
        absl::StrCat(num_faults_ - kMaxFaults, " more contents are missing or damaged"));
  }
  if (num_faults_ == 0) {
    Add(CheckLine::kOk, kArtifactFolder,
        absl::StrCat(Counted(static_cast<int64_t>(contents_.size()), "content"), ", ", num_bytes,
                     " bytes, with their SHA-256"));
  }
}

void Check::CheckOrphans() {
  int64_t num_orphans = 0;
  std::string first;
  for (const std::string& file : FilesIn(Path(kArtifactFolder))) {
    if (file.size() == 64 && !contents_.contains(file)) {
      first = num_orphans++ == 0 ? file : first;
    }
  }
  if (num_orphans > 0) {
    Add(CheckLine::kNote, kArtifactFolder,
        absl::StrCat("no name refers to ", Counted(num_orphans, "file"), ", such as ", first,
                     "; the server removes what is not a new upload when it starts"));
  }
}

void Check::CheckAuditLog() {
  const std::vector<std::string> files = AuditFiles(folder_);
  Add(CheckLine::kOk, kAuditFile, Counted(static_cast<int64_t>(files.size()), "file"));
}

void Check::CheckManifest() {
  const absl::StatusOr<BackupManifest> manifest = ReadManifest(folder_);
  if (!manifest.ok()) {
    Add(CheckLine::kWrong, kManifestFile,
        absl::StrCat(std::string(manifest.status().message()), "; use another backup"));
    return;
  }
  int64_t num_bytes = 0;
  for (const BackupFile& file : manifest->files) {
    const absl::StatusOr<FileDigest> digest = DigestOf(Path(file.path));
    num_bytes += file.size_bytes;
    if (!digest.ok() || digest->sha256 != file.sha256 || digest->size_bytes != file.size_bytes) {
      Add(CheckLine::kWrong, file.path,
          absl::StrCat(absl::IsNotFound(digest.status()) ? "it is missing"
                       : !digest.ok()                    ? absl::StrCat("it ", std::string(digest.status().message()))
                                      : "its SHA-256 or size is not that of the manifest, so it is damaged",
                       "; use another backup"));
    }
  }
  if (report_.ok()) {
    Add(CheckLine::kOk, kManifestFile,
        absl::StrCat(Counted(static_cast<int64_t>(manifest->files.size()), "file"), ", ", num_bytes,
                     " bytes, made by ampd ", manifest->ampd_version, " at ",
                     absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", manifest->time, absl::UTCTimeZone())));
  }
}

CheckReport Check::Run() {
  CheckPermissions();
  CheckDatabase(kJournalFile, kJournalSchema,
                [this](SqliteDatabase database) { return ReadJournal(std::move(database)); });
  CheckDatabase(kMetricsFile, kMetricSchema, [](SqliteDatabase) { return std::string(); });
  CheckDatabase(kArtifactIndexFile, kArtifactSchema,
                [this](SqliteDatabase database) { return ReadArtifactIndex(std::move(database)); });
  CheckDatabase(kTokensFile, kTokenSchema, [](SqliteDatabase database) -> absl::StatusOr<std::string> {
    AMPD_ASSIGN_OR_RETURN(const int64_t num_tokens, CountTokens(database));
    return Counted(num_tokens, "token");
  });
  CheckNeeded();
  CheckContents();
  CheckOrphans();
  CheckAuditLog();
  return TakeReport();
}

}  // namespace

bool CheckReport::ok() const {
  return std::none_of(lines.begin(), lines.end(),
                      [](const CheckLine& line) { return line.verdict == CheckLine::kWrong; });
}

std::string CheckReport::ToText() const {
  std::string text;
  for (const CheckLine& line : lines) {
    const char* const word = line.verdict == CheckLine::kOk     ? "OK"
                             : line.verdict == CheckLine::kNote ? "NOTE"
                                                                : "WRONG";
    absl::StrAppendFormat(&text, "%-6s %s: %s\n", word, line.what, line.text);
  }
  return text;
}

CheckReport CheckDataDirectory(const std::string& data_dir) { return Check(data_dir, /*is_backup=*/false).Run(); }

CheckReport CheckBackup(const std::string& folder) {
  Check check(folder, /*is_backup=*/true);
  check.CheckManifest();
  CheckReport report = check.TakeReport();
  if (!report.ok()) {
    return report;
  }
  const CheckReport content = Check(folder, /*is_backup=*/true).Run();
  report.lines.insert(report.lines.end(), content.lines.begin(), content.lines.end());
  return report;
}

}  // namespace ampd::server
