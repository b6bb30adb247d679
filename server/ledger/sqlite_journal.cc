#include "server/ledger/sqlite_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/ledger/journal_reader.h"
#include "server/state/cluster_state.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxReadBytes = 16 << 20;  // The most bytes that are read from the history table at once.
constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE updates(idx INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TABLE snapshots(id INTEGER PRIMARY KEY CHECK (id = 1), idx INTEGER NOT NULL, bytes BLOB NOT NULL);"
    "CREATE TABLE finished_jobs(id TEXT PRIMARY KEY, submit_order INTEGER NOT NULL UNIQUE,"
    " end_time INTEGER NOT NULL, bytes BLOB NOT NULL, name TEXT NOT NULL DEFAULT '') WITHOUT ROWID;"
    "CREATE INDEX finished_by_end ON finished_jobs(end_time);"
    "CREATE INDEX finished_by_name ON finished_jobs(name, submit_order);"
    "PRAGMA user_version = 2;"
    "COMMIT;";

absl::Status Corrupt(std::string_view what) { return JournalIsDamaged(what); }

absl::StatusOr<int64_t> QueryInt(SqliteDatabase& database, std::string_view sql) {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement query, database.Prepare(sql));
  AMPD_ASSIGN_OR_RETURN(const bool has_row, query.Step());
  return has_row ? query.Int(0) : 0;
}

// Fills in the names of all finished jobs from their records. Reads one record at a time, in the order of ids, so that
// the statement that reads never sees the rows that are being written.
absl::Status FillNames(SqliteDatabase& database) {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement next, database.Prepare("SELECT id, bytes FROM finished_jobs WHERE id > ?1"
                                                               " ORDER BY id LIMIT 1"));
  AMPD_ASSIGN_OR_RETURN(SqliteStatement set, database.Prepare("UPDATE finished_jobs SET name = ?2 WHERE id = ?1"));
  std::string id;
  while (true) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, next.Bind(1, std::string_view(id)).Step());
    if (!has_row) {
      return absl::OkStatus();
    }
    id = next.Bytes(0);
    internal::JobRecord record;
    const std::string_view bytes = next.Bytes(1);
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return Corrupt(absl::StrCat("the record of the finished job ", id, " can't be read"));
    }
    next.Reset();
    AMPD_RETURN_IF_ERROR(set.Bind(1, std::string_view(id)).Bind(2, std::string_view(record.job().spec().name())).Run());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(const Options& options) {
  std::unique_ptr<SqliteJournal> journal(new SqliteJournal(options));
  AMPD_RETURN_IF_ERROR(journal->Lock());
  AMPD_RETURN_IF_ERROR(journal->KeepFromOthers());
  AMPD_RETURN_IF_ERROR(journal->OpenWriter());
  AMPD_RETURN_IF_ERROR(journal->PrepareStatements());
  AMPD_RETURN_IF_ERROR(journal->OpenReader());
  journal->MakeReserve();
  return journal;
}

absl::Status SqliteJournal::Lock() {
  lock_ = UniqueFd(open((options_.data_dir + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.ok()) {
    return ErrnoError(errno, "open the lock file of the data directory");
  }
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error(absl::StatusCode::kFailedPrecondition, "DATA_DIRECTORY_LOCKED",
                 absl::StrCat("the data directory ", options_.data_dir,
                              " is in use by another server; stop that one, or choose another --data-dir"));
  }
  return absl::OkStatus();
}

// Makes the journal's file accessible to its owner only, because the file has the identities and tokens of agents and
// attempts. SQLite gives its additional files, such as the write-ahead log, the same permissions.
absl::Status SqliteJournal::KeepFromOthers() const {
  const UniqueFd file(open((options_.data_dir + "/journal.db").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok()) {
    return ErrnoError(errno, "open the journal");
  }
  for (const char* suffix : {"", "-wal", "-shm"}) {
    chmod((options_.data_dir + "/journal.db" + suffix).c_str(),
          0600);  // An older server may have set other permissions.
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::OpenWriter() {
  AMPD_ASSIGN_OR_RETURN(writer_, SqliteDatabase::Open(options_.data_dir + "/journal.db", /*create=*/true));
  // This first access reads the header, so it detects whether the file is damaged or is no database.
  const absl::StatusOr<int64_t> version = QueryInt(writer_, "PRAGMA user_version");
  if (absl::IsDataLoss(version.status())) {
    return Corrupt("it is no SQLite database");
  }
  AMPD_RETURN_IF_ERROR(version.status());
  AMPD_RETURN_IF_ERROR(CheckJournalSchema(*version));
  AMPD_RETURN_IF_ERROR(writer_.Execute("PRAGMA journal_mode=WAL"));
  AMPD_RETURN_IF_ERROR(writer_.Execute("PRAGMA synchronous=FULL"));
  AMPD_RETURN_IF_ERROR(writer_.Execute("PRAGMA journal_size_limit=67108864"));
  if (*version == 0) {
    AMPD_RETURN_IF_ERROR(writer_.Execute(kSchema));
    AMPD_RETURN_IF_ERROR(SyncFolder(options_.data_dir));
  }
  AMPD_RETURN_IF_ERROR(CheckIntegrity());
  return *version == 1 ? AddNames() : absl::OkStatus();
}

// Converts a file of version 1: adds the names of the finished jobs. The conversion is one transaction, so a crash
// leaves the file as it was.
absl::Status SqliteJournal::AddNames() {
  AMPD_RETURN_IF_ERROR(
      writer_.Execute("BEGIN IMMEDIATE; ALTER TABLE finished_jobs ADD COLUMN name TEXT NOT NULL DEFAULT ''"));
  absl::Status status = FillNames(writer_);
  if (status.ok()) {
    status = writer_.Execute(
        "CREATE INDEX finished_by_name ON finished_jobs(name, submit_order); PRAGMA user_version = 2; COMMIT");
  }
  if (!status.ok()) {
    (void)writer_.Execute("ROLLBACK");
  }
  return status;
}

absl::Status SqliteJournal::CheckIntegrity() {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement check, writer_.Prepare("PRAGMA quick_check(1)"));
  const absl::StatusOr<bool> has_row = check.Step();
  if (!has_row.ok() && !absl::IsDataLoss(has_row.status())) {
    return has_row.status();
  }
  const std::string answer(has_row.ok() && *has_row ? check.Bytes(0) : "");
  // If SQLite can't read a page, it says so in the text of the result instead of returning an error. That is not
  // treated as corruption, because the page may be undamaged.
  if (absl::StrContains(answer, "failed to get page") || absl::StrContains(answer, "unable to get the page")) {
    return Error(absl::StatusCode::kInternal, "STORE_ERROR", "the journal can't be read");
  }
  return answer == "ok" ? absl::OkStatus() : Corrupt("quick_check failed");
}

absl::Status SqliteJournal::PrepareStatements() {
  AMPD_ASSIGN_OR_RETURN(add_update_, writer_.Prepare("INSERT INTO updates(idx, bytes) VALUES(?1, ?2)"));
  AMPD_ASSIGN_OR_RETURN(
      add_finished_,
      writer_.Prepare("INSERT INTO finished_jobs(id, submit_order, end_time, bytes, name) VALUES(?1, ?2, ?3, ?4, ?5)"
                      " ON CONFLICT(id) DO UPDATE SET bytes = excluded.bytes"));
  AMPD_ASSIGN_OR_RETURN(delete_finished_, writer_.Prepare("DELETE FROM finished_jobs WHERE id = ?1"));
  AMPD_ASSIGN_OR_RETURN(put_snapshot_,
                        writer_.Prepare("INSERT OR REPLACE INTO snapshots(id, idx, bytes) VALUES(1, ?1, ?2)"));
  AMPD_ASSIGN_OR_RETURN(drop_updates_, writer_.Prepare("DELETE FROM updates WHERE idx <= ?1"));
  return absl::OkStatus();
}

absl::Status SqliteJournal::OpenReader() {
  absl::MutexLock lock(&reader_mutex_);
  AMPD_ASSIGN_OR_RETURN(reader_, SqliteDatabase::Open(options_.data_dir + "/journal.db", /*create=*/false));
  AMPD_RETURN_IF_ERROR(reader_.Execute("PRAGMA wal_autocheckpoint=0; PRAGMA query_only=1"));
  AMPD_ASSIGN_OR_RETURN(find_finished_, reader_.Prepare("SELECT bytes FROM finished_jobs WHERE id = ?1"));
  AMPD_ASSIGN_OR_RETURN(
      find_named_,
      reader_.Prepare("SELECT bytes FROM finished_jobs WHERE name = ?1 ORDER BY submit_order DESC LIMIT ?2"));
  AMPD_ASSIGN_OR_RETURN(
      find_with_prefix_,
      reader_.Prepare("SELECT bytes FROM finished_jobs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3"));
  AMPD_ASSIGN_OR_RETURN(count_finished_, reader_.Prepare("SELECT count(*) FROM finished_jobs"));
  AMPD_ASSIGN_OR_RETURN(
      list_finished_,
      reader_.Prepare("SELECT bytes FROM finished_jobs WHERE submit_order < ?1 ORDER BY submit_order DESC LIMIT ?2"));
  AMPD_ASSIGN_OR_RETURN(
      list_ended_,
      reader_.Prepare("SELECT bytes FROM finished_jobs WHERE (end_time, submit_order) > (?1, ?2) AND end_time < ?3"
                      " ORDER BY end_time, submit_order LIMIT ?4"));
  return absl::OkStatus();
}

absl::StatusOr<Journal::Recovered> SqliteJournal::Recover() { return ReadJournal(writer_); }

absl::Status SqliteJournal::Append(const JournalGroup& group) {
  absl::Status status = AppendOnce(group);
  // If the disk is full, the reserved space is released for this append, because cancels and ends of jobs must still be
  // stored. New jobs are refused long before the disk is that full.
  if (absl::IsResourceExhausted(status) && ReleaseReserve()) {
    status = AppendOnce(group);
  }
  return status;
}

absl::Status SqliteJournal::AppendOnce(const JournalGroup& group) {
  AMPD_RETURN_IF_ERROR(writer_.Execute("BEGIN IMMEDIATE"));
  absl::Status status = WriteGroup(group);
  if (status.ok()) {
    status = writer_.Execute("COMMIT");
  }
  if (!status.ok()) {
    (void)writer_.Execute("ROLLBACK");
  }
  return status;
}

absl::Status SqliteJournal::WriteGroup(const JournalGroup& group) {
  uint64_t index = group.first_index;
  for (const std::string& update : group.updates) {
    AMPD_RETURN_IF_ERROR(add_update_.Bind(1, static_cast<int64_t>(index++)).Bind(2, std::string_view(update)).Run());
  }
  for (const ArchivedJob& job : group.archived) {
    add_finished_.Bind(1, std::string_view(job.id)).Bind(2, job.submit_order).Bind(3, job.end_unix_micros);
    add_finished_.Bind(4, std::string_view(job.record)).Bind(5, std::string_view(job.name));
    AMPD_RETURN_IF_ERROR(add_finished_.Run());
  }
  for (const std::string& id : group.deleted) {
    AMPD_RETURN_IF_ERROR(delete_finished_.Bind(1, std::string_view(id)).Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteJournal::Compact(uint64_t index, const std::string& snapshot) {
  AMPD_RETURN_IF_ERROR(writer_.Execute("BEGIN IMMEDIATE"));
  absl::Status status = put_snapshot_.Bind(1, static_cast<int64_t>(index)).Bind(2, std::string_view(snapshot)).Run();
  if (status.ok()) {
    status = drop_updates_.Bind(1, static_cast<int64_t>(index)).Run();
  }
  if (status.ok()) {
    status = writer_.Execute("COMMIT");
  }
  if (!status.ok()) {
    (void)writer_.Execute("ROLLBACK");
  }
  return status;
}

absl::StatusOr<std::optional<std::string>> SqliteJournal::FindArchived(const std::string& id) {
  absl::MutexLock lock(&reader_mutex_);
  AMPD_ASSIGN_OR_RETURN(const bool found, find_finished_.Bind(1, std::string_view(id)).Step());
  std::optional<std::string> record;
  if (found) {
    record = std::string(find_finished_.Bytes(0));
    find_finished_.Reset();
  }
  return record;
}

absl::StatusOr<std::vector<std::string>> SqliteJournal::Records(SqliteStatement& statement) {
  std::vector<std::string> records;
  for (size_t num_bytes = 0; num_bytes < kMaxReadBytes;) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, statement.Step());
    if (!has_row) {
      return records;
    }
    num_bytes += records.emplace_back(statement.Bytes(0)).size();
  }
  statement.Reset();
  return records;
}

absl::StatusOr<std::vector<std::string>> SqliteJournal::FindArchivedNamed(const std::string& name, int limit) {
  absl::MutexLock lock(&reader_mutex_);
  find_named_.Bind(1, std::string_view(name)).Bind(2, static_cast<int64_t>(limit));
  return Records(find_named_);
}

absl::StatusOr<std::vector<std::string>> SqliteJournal::FindArchivedWithPrefix(const std::string& prefix, int limit) {
  absl::MutexLock lock(&reader_mutex_);
  // Ids are ASCII. So all ids with this prefix come before the prefix followed by the highest ASCII character.
  const std::string end = prefix + "\x7f";
  find_with_prefix_.Bind(1, std::string_view(prefix)).Bind(2, std::string_view(end));
  find_with_prefix_.Bind(3, static_cast<int64_t>(limit));
  return Records(find_with_prefix_);
}

absl::StatusOr<int64_t> SqliteJournal::CountArchived() {
  absl::MutexLock lock(&reader_mutex_);
  AMPD_RETURN_IF_ERROR(count_finished_.Step().status());
  const int64_t count = count_finished_.Int(0);
  count_finished_.Reset();
  return count;
}

absl::StatusOr<std::vector<std::string>> SqliteJournal::ListArchived(int64_t before, int limit) {
  absl::MutexLock lock(&reader_mutex_);
  list_finished_.Bind(1, before).Bind(2, static_cast<int64_t>(limit));
  return Records(list_finished_);
}

absl::StatusOr<std::vector<std::string>> SqliteJournal::ListEnded(EndPosition after, int64_t before_unix_micros,
                                                                  int limit) {
  absl::MutexLock lock(&reader_mutex_);
  list_ended_.Bind(1, after.end_unix_micros).Bind(2, after.submit_order).Bind(3, before_unix_micros);
  list_ended_.Bind(4, static_cast<int64_t>(limit));
  return Records(list_ended_);
}

bool SqliteJournal::HasRoomForSubmits() {
  struct statvfs disk = {};
  if (statvfs(options_.data_dir.c_str(), &disk) != 0) {
    return true;
  }
  const bool has_room =
      static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize) >= options_.min_free_bytes;
  if (has_room && access((options_.data_dir + "/reserve").c_str(), F_OK) != 0) {
    MakeReserve();
  }
  return has_room;
}

void SqliteJournal::MakeReserve() {
  if (options_.reserve_bytes == 0) {
    return;
  }
  const std::string path = options_.data_dir + "/reserve";
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok() || posix_fallocate(file.get(), 0, options_.reserve_bytes) != 0) {
    unlink(path.c_str());
  }
}

bool SqliteJournal::ReleaseReserve() { return unlink((options_.data_dir + "/reserve").c_str()) == 0; }

}  // namespace ampd::server
