#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/io/file.h"
#include "base/io/sqlite.h"
#include "server/ledger/journal.h"

namespace ampd::server {

// The journal in a SQLite file, "journal.db" in the data directory: WAL, synchronous=FULL. Debian 12's SQLite can
// corrupt a file if two connections write or checkpoint it at once, so exactly one connection writes and checkpoints.
// The history table is read through another connection, which never checkpoints.
//
//   updates(idx INTEGER PRIMARY KEY, bytes)         internal.Update
//   snapshots(id = 1, idx, bytes)                   internal.Snapshot, one row
//   finished_jobs(id, submit_order, end_time, bytes, name) internal.JobRecord
//
// The schema's version is PRAGMA user_version. Version 1 lacks the names of finished jobs. Open converts a file of
// version 1, which takes some seconds per 100,000 finished jobs. The file "lock" in the directory is locked (flock) as
// long as the journal lives. The file "reserve" reserves disk space: it is deleted when an append finds the disk full,
// and created again when there is space.
class SqliteJournal final : public Journal {
 public:
  struct Options {
    std::string data_dir;                // The directory exists.
    int64_t min_free_bytes = 256 << 20;  // If less space is free, new jobs are refused.
    int64_t reserve_bytes = 16 << 20;
  };

  // Opens or creates the journal. FAILED_PRECONDITION with reason DATA_DIRECTORY_LOCKED if another server uses the
  // directory, or NEWER_SCHEMA if a newer server wrote the file; DATA_LOSS with reason STORE_CORRUPT if the file is
  // damaged.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(const Options& options);

  absl::StatusOr<Recovered> Recover() override;
  absl::Status Append(const JournalGroup& group) override;
  absl::Status Compact(uint64_t index, const std::string& snapshot) override;
  absl::StatusOr<std::optional<std::string>> FindArchived(const std::string& id) override;
  absl::StatusOr<std::vector<std::string>> FindArchivedNamed(const std::string& name, int limit) override;
  absl::StatusOr<std::vector<std::string>> FindArchivedWithPrefix(const std::string& prefix, int limit) override;
  absl::StatusOr<int64_t> CountArchived() override;
  absl::StatusOr<std::vector<std::string>> ListArchived(int64_t before, int limit) override;
  absl::StatusOr<std::vector<std::string>> ListEnded(EndPosition after, int64_t before_unix_micros, int limit) override;
  bool HasRoomForSubmits() override;

 private:
  explicit SqliteJournal(Options options) : options_(std::move(options)) {}
  absl::Status Lock();
  absl::Status KeepFromOthers() const;
  absl::Status OpenWriter();
  absl::Status OpenReader();
  absl::Status CheckIntegrity();
  absl::Status AddNames();
  absl::Status PrepareStatements();
  absl::Status AppendOnce(const JournalGroup& group);
  absl::Status WriteGroup(const JournalGroup& group);
  absl::StatusOr<std::vector<std::string>> Records(SqliteStatement& statement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reader_mutex_);
  void MakeReserve();
  bool ReleaseReserve();

  const Options options_;
  UniqueFd lock_;
  SqliteDatabase writer_;  // Used only by the committer.
  SqliteStatement add_update_, add_finished_, delete_finished_, put_snapshot_, drop_updates_;

  absl::Mutex reader_mutex_;
  SqliteDatabase reader_ ABSL_GUARDED_BY(reader_mutex_);
  SqliteStatement find_finished_ ABSL_GUARDED_BY(reader_mutex_);
  SqliteStatement list_finished_ ABSL_GUARDED_BY(reader_mutex_);
  SqliteStatement list_ended_ ABSL_GUARDED_BY(reader_mutex_);
  SqliteStatement find_named_ ABSL_GUARDED_BY(reader_mutex_);
  SqliteStatement find_with_prefix_ ABSL_GUARDED_BY(reader_mutex_);
  SqliteStatement count_finished_ ABSL_GUARDED_BY(reader_mutex_);
};

}  // namespace ampd::server
