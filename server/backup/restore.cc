#include "server/backup/restore.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "server/backup/data_files.h"
#include "server/backup/file_copy.h"
#include "server/backup/manifest.h"
#include "server/backup/staging_folder.h"
#include "server/ledger/journal_reader.h"
#include "server/ledger/ledger.h"
#include "server/ledger/sqlite_journal.h"
#include "server/state/job_rules.h"
#include "server/telemetry/metric_writer.h"

namespace ampd::server {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLogLimit = int64_t{1} << 62;  // No limit is needed, because a restore appends nothing to the logs.

absl::Status DamagedFile(const std::string& path, std::string_view what) {
  return Error(absl::StatusCode::kDataLoss, "BACKUP_DAMAGED",
               absl::StrCat("the backup is damaged: ", path, " ", std::string(what), "; restore another backup"));
}

// Returns an error with reason DATA_DIRECTORY_LOCKED if a server uses the folder.
absl::Status CheckNoServer(const std::string& data_dir) {
  const UniqueFd lock(open((data_dir + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  return !lock.ok() || flock(lock.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK
             ? absl::OkStatus()
             : Error(absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_LOCKED",
                     absl::StrCat("a server uses ", data_dir, "; stop it, and restore into a new folder"));
}

// Restores one backup. Run() calls the other functions in the order of their declaration.
class Restore {
 public:
  Restore(const RestoreOptions& options, BackupManifest manifest, StagingFolder staging)
      : options_(options), manifest_(std::move(manifest)), staging_(std::move(staging)) {}

  absl::StatusOr<RestoreSummary> Run();

 private:
  absl::Status Step(const std::string& what) const {
    return options_.before_step ? options_.before_step(what) : absl::OkStatus();
  }
  absl::Status CopyFiles();
  absl::Status CopyOne(const BackupFile& file);
  absl::Status RenewJournal();
  absl::Status CommitRestore(Ledger* ledger);
  absl::Status CollectKnown(Ledger* ledger);
  absl::Status TrimTelemetry();
  absl::Status GiveToOwner() const;

  const RestoreOptions& options_;
  const BackupManifest manifest_;
  StagingFolder staging_;
  std::map<std::string, KnownHistory> known_;
  RestoreSummary summary_;
};

absl::Status Restore::CopyFiles() {
  const auto has = [this](const char* name) {
    return std::any_of(manifest_.files.begin(), manifest_.files.end(),
                       [name](const BackupFile& file) { return file.path == name; });
  };
  if (!has(kJournalFile)) {
    return DamagedFile(kJournalFile, "is missing");
  }
  for (const BackupFile& file : manifest_.files) {
    AMPD_RETURN_IF_ERROR(CopyOne(file));
  }
  return absl::OkStatus();
}

absl::Status Restore::CopyOne(const BackupFile& file) {
  AMPD_RETURN_IF_ERROR(Step(file.path));
  const fs::path folder = fs::path(file.path).parent_path();
  if (!folder.empty() && access(staging_.Path(folder.string()).c_str(), F_OK) != 0) {
    AMPD_RETURN_IF_ERROR(staging_.MakeFolder(folder.string()));
  }
  const absl::StatusOr<FileDigest> digest =
      CopyFile(absl::StrCat(options_.from, "/", file.path), staging_.Path(file.path), file.mode);
  if (absl::IsResourceExhausted(digest.status())) {
    return digest.status();
  }
  if (!digest.ok()) {
    return DamagedFile(file.path, std::string(digest.status().message()));
  }
  return digest->size_bytes == file.size_bytes && digest->sha256 == file.sha256
             ? absl::OkStatus()
             : DamagedFile(file.path, "has another SHA-256 than when it was made");
}

absl::Status Restore::RenewJournal() {
  AMPD_RETURN_IF_ERROR(Step("journal"));
  SqliteJournal::Options journal;
  journal.data_dir = staging_.temporary();
  journal.reserve_bytes = 0;  // The server creates the reserve when it starts.
  Ledger::Options options;
  AMPD_ASSIGN_OR_RETURN(options.journal, SqliteJournal::Open(journal));
  AMPD_ASSIGN_OR_RETURN(const std::unique_ptr<Ledger> ledger, Ledger::Open(std::move(options)));
  AMPD_RETURN_IF_ERROR(CollectKnown(ledger.get()));
  return CommitRestore(ledger.get());
}

absl::Status Restore::CollectKnown(Ledger* ledger) {
  const auto know = [this](const internal::JobRecord& record) {
    known_[record.job().id()] = {record.last_event(), record.job().num_attempts()};
    return absl::OkStatus();
  };
  ledger->Read([&](const ClusterState& state) {
    for (const auto& [order, record] : state.jobs()) {
      know(*record).IgnoreError();
      const v1::Job::State at = record->job().state();
      summary_.num_unfinished_jobs += IsTerminal(at) ? 0 : 1;
      summary_.num_stopped_attempts += IsActive(at) ? 1 : 0;
    }
  });
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::OpenReader(staging_.Path(kJournalFile)));
  AMPD_ASSIGN_OR_RETURN(JournalReader journal, JournalReader::Open(std::move(database)));
  return journal.ForEachFinished(know);
}

absl::Status Restore::CommitRestore(Ledger* ledger) {
  constexpr uint64_t kThousands = 999;
  const uint64_t epoch = ledger->Read([](const ClusterState& state) { return state.epoch(); });
  const int64_t now = absl::ToUnixMicros(options_.clock->Now());
  internal::Update update;
  update.set_time_unix_micros(now);
  internal::RestoreServer& restore = *update.mutable_restore_server();
  // Several servers may be restored from one backup, one after the other. The epoch is at least the current time, so
  // each restored server gets a higher epoch than the one before. The numbers of later attempts begin after a random
  // gap, so that attempts of different restored servers very probably have different numbers.
  restore.set_epoch(std::max(epoch + 1, static_cast<uint64_t>(std::max<int64_t>(now, 0))));
  restore.set_attempt_gap(static_cast<int32_t>(1000 * (1 + options_.random->Next() % kThousands)));
  restore.set_message(absl::StrCat("the server was restored from a backup of ",
                                   absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", manifest_.time, absl::UTCTimeZone())));
  return ledger->CommitAndWait(std::move(update)).status();
}

absl::Status Restore::TrimTelemetry() {
  AMPD_RETURN_IF_ERROR(Step("metrics"));
  const std::string path = staging_.Path(kMetricsFile);
  if (access(path.c_str(), F_OK) != 0) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(const std::unique_ptr<MetricWriter> writer, MetricWriter::Open(path, kNoLogLimit));
  return writer->Trim(known_);
}

absl::Status Restore::GiveToOwner() const {
  struct stat target = {};
  if (geteuid() != 0 || stat(options_.data_dir.c_str(), &target) != 0 || target.st_uid == 0) {
    return absl::OkStatus();
  }
  std::error_code error;
  fs::recursive_directory_iterator entry(staging_.temporary(), error);
  bool is_given = !error && lchown(staging_.temporary().c_str(), target.st_uid, target.st_gid) == 0;
  for (; is_given && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    is_given = lchown(entry->path().c_str(), target.st_uid, target.st_gid) == 0 && !error;
  }
  return is_given ? absl::OkStatus() : ErrnoError(errno, "give the restored files to the owner of the data directory");
}

absl::StatusOr<RestoreSummary> Restore::Run() {
  summary_.backup_time = manifest_.time;
  summary_.last_update = manifest_.last_update;
  AMPD_RETURN_IF_ERROR(CopyFiles());
  AMPD_RETURN_IF_ERROR(RenewJournal());
  AMPD_RETURN_IF_ERROR(TrimTelemetry());
  AMPD_RETURN_IF_ERROR(GiveToOwner());
  AMPD_RETURN_IF_ERROR(Step("rename"));
  AMPD_RETURN_IF_ERROR(staging_.Commit());
  return summary_;
}

}  // namespace

absl::StatusOr<RestoreSummary> RestoreBackup(const RestoreOptions& options) {
  AMPD_RETURN_IF_ERROR(CheckNoServer(options.data_dir));
  AMPD_ASSIGN_OR_RETURN(BackupManifest manifest, ReadManifest(options.from));
  AMPD_ASSIGN_OR_RETURN(StagingFolder staging, StagingFolder::Create(options.data_dir));
  return Restore(options, std::move(manifest), std::move(staging)).Run();
}

}  // namespace ampd::server
