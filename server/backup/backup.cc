#include "server/backup/backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/sqlite.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/version.h"
#include "server/artifacts/artifact_index.h"
#include "server/backup/data_files.h"
#include "server/backup/file_copy.h"
#include "server/backup/manifest.h"
#include "server/backup/staging_folder.h"
#include "server/ledger/journal_reader.h"
#include "server/ledger/ledger.h"

namespace ampd::server {
namespace {

absl::Status DamagedContent(const std::string& sha256, const char* what) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat("the content of the artifact ", sha256, " ", what,
                            "; restore its file from an earlier backup, or delete it (ampctl artifact delete ", sha256,
                            "), then run the backup again"));
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  return status.ok() || !ReasonOf(status).empty()
             ? status
             : absl::Status(status.code(), absl::StrCat(path, " ", std::string(status.message())));
}

// Opens the database and begins a read transaction.
absl::StatusOr<SqliteDatabase> BeginReading(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::OpenReader(path));
  AMPD_RETURN_IF_ERROR(database.Execute("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1"));
  return database;
}

// An open file of the audit log. The backup opens all files of the log when it begins, because the server may rename or
// delete a file later. An open file can still be read then.
struct AuditPart {
  std::string name;
  UniqueFd file;
  int64_t num_bytes = 0;
};

// Opens the files of the audit log, the newest first. If a rotation happens meanwhile, a file can appear under two
// names; it is then included once.
std::vector<AuditPart> OpenAuditLog(const std::string& data_dir) {
  std::vector<AuditPart> parts;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& name : AuditFiles(data_dir)) {
    UniqueFd file(open(absl::StrCat(data_dir, "/", name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status = {};
    if (file.ok() && fstat(file.get(), &status) == 0 && seen.insert({status.st_dev, status.st_ino}).second) {
      std::string taken = parts.empty() ? kAuditFile : absl::StrCat(kAuditFile, ".", parts.size());
      parts.push_back({std::move(taken), std::move(file), status.st_size});
    }
  }
  return parts;
}

// Makes one backup. Run() calls the other functions in the order of their declaration.
class Backup {
 public:
  Backup(const BackupOptions& options, StagingFolder staging) : options_(options), staging_(std::move(staging)) {}

  absl::StatusOr<BackupSummary> Run();

 private:
  std::string Source(const std::string& name) const { return absl::StrCat(options_.data_dir, "/", name); }
  absl::Status Step(const std::string& what) const {
    return options_.before_step ? options_.before_step(what) : absl::OkStatus();
  }
  absl::Status BeginAll();
  absl::Status CopyDatabases();
  absl::Status CopyDatabase(const std::string& name, SqliteDatabase database);
  absl::Status TakeContents();
  absl::Status TakeContent(const std::string& sha256, ArtifactIndex* copied_index);
  absl::Status CheckContents();
  absl::Status CopyAuditLog();
  absl::Status CopySecrets();
  absl::Status CopyPrivateFile(const std::string& name, mode_t mode);
  absl::Status AddDatabases();
  // Checks that the journal in the backup can be replayed. Otherwise the backup would be useless.
  absl::Status ReplayJournal();
  absl::Status Finish();

  absl::Status AddDigest(const std::string& name, const absl::StatusOr<FileDigest>& digest, mode_t mode = kPrivateFile);

  const BackupOptions& options_;
  StagingFolder staging_;
  BackupManifest manifest_;
  std::vector<std::pair<const char*, SqliteDatabase>> databases_;  // The open transactions of BeginAll.
  std::vector<const char*> copied_;                                // The databases that have been copied.
  std::map<std::string, int64_t> contents_;                        // Size of each artifact's file, by its digest.
  std::vector<AuditPart> audit_;
};

absl::Status Backup::AddDigest(const std::string& name, const absl::StatusOr<FileDigest>& digest, mode_t mode) {
  AMPD_RETURN_IF_ERROR(WithPath(digest.status(), name));
  manifest_.files.push_back({name, digest->size_bytes, digest->sha256, mode});
  return absl::OkStatus();
}

absl::Status Backup::BeginAll() {
  for (const char* const name : {kJournalFile, kMetricsFile, kArtifactIndexFile, kTokensFile}) {
    if (access(Source(name).c_str(), F_OK) == 0) {  // An older server may not have created this file.
      AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, BeginReading(Source(name)));
      databases_.emplace_back(name, std::move(database));
    }
  }
  audit_ = OpenAuditLog(options_.data_dir);
  manifest_.time = options_.clock->Now();
  return absl::OkStatus();
}

// The write-ahead log of a database grows while a transaction is open, so each transaction ends as soon as its database
// is copied. The artifacts' files are copied early, because the server may delete some at any time.
absl::Status Backup::CopyDatabases() {
  for (const char* const wanted : {kJournalFile, kArtifactIndexFile, kTokensFile, kMetricsFile}) {
    for (auto& [name, database] : databases_) {
      if (name == std::string_view(wanted)) {
        AMPD_RETURN_IF_ERROR(CopyDatabase(name, std::move(database)));
        copied_.push_back(name);
      }
    }
    if (wanted == std::string_view(kArtifactIndexFile)) {
      AMPD_RETURN_IF_ERROR(TakeContents());
    }
  }
  return absl::OkStatus();
}

absl::Status Backup::CopyDatabase(const std::string& name, SqliteDatabase database) {
  AMPD_RETURN_IF_ERROR(Step(name));
  return WithPath(database.CopyTo(staging_.Path(name), [&] { return Step("a part of " + name); }), name);
}

absl::Status Backup::TakeContents() {
  if (access(staging_.Path(kArtifactIndexFile).c_str(), F_OK) != 0) {
    return absl::OkStatus();
  }
  AMPD_RETURN_IF_ERROR(staging_.MakeFolder(kArtifactFolder));
  AMPD_ASSIGN_OR_RETURN(ArtifactIndex copied, ArtifactIndex::Open(staging_.Path(kArtifactIndexFile)));
  AMPD_ASSIGN_OR_RETURN(contents_, copied.Contents());
  for (const auto& [sha256, size_bytes] : std::map<std::string, int64_t>(contents_)) {
    AMPD_RETURN_IF_ERROR(TakeContent(sha256, &copied));
  }
  return absl::OkStatus();
}

absl::Status Backup::TakeContent(const std::string& sha256, ArtifactIndex* copied_index) {
  const std::string name = absl::StrCat(kArtifactFolder, "/", sha256);
  AMPD_RETURN_IF_ERROR(Step(name));
  if (const absl::Status taken = LinkOrCopyFile(Source(name), staging_.Path(name)); !absl::IsNotFound(taken)) {
    return WithPath(taken, name);
  }
  // If the live index has no name for the file any more, the server deleted the artifact on purpose. The server always
  // removes the names of a file before the file itself.
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase live, SqliteDatabase::OpenReader(Source(kArtifactIndexFile)));
  AMPD_ASSIGN_OR_RETURN(ArtifactIndex index, ArtifactIndex::OpenToRead(std::move(live)));
  AMPD_ASSIGN_OR_RETURN(const bool has_name, index.HasContent(sha256));
  contents_.erase(sha256);
  return has_name ? DamagedContent(sha256, "is missing") : copied_index->RemoveContent(sha256);
}

absl::Status Backup::CheckContents() {
  for (const auto& [sha256, size_bytes] : contents_) {
    const std::string name = absl::StrCat(kArtifactFolder, "/", sha256);
    const absl::StatusOr<FileDigest> digest = DigestOf(staging_.Path(name));
    AMPD_RETURN_IF_ERROR(AddDigest(name, digest));
    if (digest->sha256 != sha256 || digest->size_bytes != size_bytes) {
      return DamagedContent(sha256, "is damaged");
    }
  }
  return absl::OkStatus();
}

absl::Status Backup::CopyAuditLog() {
  for (const AuditPart& part : audit_) {
    AMPD_RETURN_IF_ERROR(Step(part.name));
    AMPD_RETURN_IF_ERROR(
        AddDigest(part.name, CopyFile(part.file.get(), staging_.Path(part.name), kPrivateFile, part.num_bytes)));
  }
  return absl::OkStatus();
}

absl::Status Backup::CopyPrivateFile(const std::string& name, mode_t mode) {
  AMPD_RETURN_IF_ERROR(Step(name));
  return AddDigest(name, CopyFile(Source(name), staging_.Path(name)), mode);
}

absl::Status Backup::CopySecrets() {
  const std::vector<std::string> files = FilesIn(Source(kTlsFolder));
  if (!files.empty()) {
    AMPD_RETURN_IF_ERROR(staging_.MakeFolder(kTlsFolder));
  }
  for (const std::string& file : files) {
    const std::string name = absl::StrCat(kTlsFolder, "/", file);
    struct stat status = {};
    const bool is_readable = stat(Source(name).c_str(), &status) == 0 && (status.st_mode & S_IROTH) != 0;
    AMPD_RETURN_IF_ERROR(CopyPrivateFile(name, is_readable ? kUserFile : kPrivateFile));
  }
  return access(Source(kAdminTokenFile).c_str(), F_OK) == 0 ? CopyPrivateFile(kAdminTokenFile, kPrivateFile)
                                                            : absl::OkStatus();
}

absl::Status Backup::AddDatabases() {
  for (const char* const name : copied_) {
    AMPD_RETURN_IF_ERROR(AddDigest(name, DigestOf(staging_.Path(name))));
  }
  return absl::OkStatus();
}

absl::Status Backup::ReplayJournal() {
  AMPD_RETURN_IF_ERROR(Step("replay"));
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase copy, SqliteDatabase::OpenUnchanging(staging_.Path(kJournalFile)));
  AMPD_ASSIGN_OR_RETURN(JournalReader journal, JournalReader::Open(std::move(copy)));
  AMPD_ASSIGN_OR_RETURN(const Journal::Recovered recovered, journal.Recover());
  ClusterState state;
  AMPD_ASSIGN_OR_RETURN(manifest_.last_update, Replay(recovered, &state, /*effects=*/nullptr));
  manifest_.epoch = state.epoch();
  return absl::OkStatus();
}

absl::Status Backup::Finish() {
  manifest_.ampd_version = Version();
  AMPD_RETURN_IF_ERROR(Step(kManifestFile));
  AMPD_RETURN_IF_ERROR(WithPath(WriteFileAtomically(staging_.Path(kManifestFile), ToJson(manifest_)), kManifestFile));
  AMPD_RETURN_IF_ERROR(Step("rename"));
  return staging_.Commit();
}

absl::StatusOr<BackupSummary> Backup::Run() {
  AMPD_RETURN_IF_ERROR(BeginAll());
  AMPD_RETURN_IF_ERROR(CopyDatabases());
  AMPD_RETURN_IF_ERROR(CheckContents());
  AMPD_RETURN_IF_ERROR(CopyAuditLog());
  AMPD_RETURN_IF_ERROR(CopySecrets());
  AMPD_RETURN_IF_ERROR(AddDatabases());
  AMPD_RETURN_IF_ERROR(ReplayJournal());
  AMPD_RETURN_IF_ERROR(Finish());
  BackupSummary summary{manifest_.last_update, static_cast<int64_t>(manifest_.files.size()), 0};
  for (const BackupFile& file : manifest_.files) {
    summary.num_bytes += file.size_bytes;
  }
  return summary;
}

absl::Status CheckFolders(const BackupOptions& options) {
  std::error_code error;
  const std::string data = std::filesystem::canonical(options.data_dir, error).string();
  if (error || access(absl::StrCat(data, "/", kJournalFile).c_str(), F_OK) != 0) {
    return Error(
        absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_UNUSABLE",
        absl::StrCat("there is no ", kJournalFile, " in ", options.data_dir, "; give the --data-dir of a server"));
  }
  const std::string out = std::filesystem::weakly_canonical(options.out, error).string();
  return error || !absl::StartsWith(out + "/", data + "/")
             ? absl::OkStatus()
             : Error(
                   absl::StatusCode::kFailedPrecondition, "CANNOT_WRITE",
                   absl::StrCat("the backup ", options.out, " would be in the data directory; choose another folder"));
}

}  // namespace

absl::StatusOr<BackupSummary> MakeBackup(const BackupOptions& options) {
  AMPD_RETURN_IF_ERROR(CheckFolders(options));
  AMPD_ASSIGN_OR_RETURN(StagingFolder staging, StagingFolder::Create(options.out));
  return Backup(options, std::move(staging)).Run();
}

}  // namespace ampd::server
