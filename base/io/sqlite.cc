#include "base/io/sqlite.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "base/version.h"

namespace ampd::server {
namespace {

absl::Status SqliteError(int code, std::string_view what) {
  const int primary = code & 0xff;
  // Readers and the writer share an index file (-shm) that grows with the write-ahead log. If the disk is full when
  // that file grows, SQLite reports SQLITE_IOERR_SHMSIZE instead of SQLITE_FULL.
  if (primary == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE) {
    return Error(absl::StatusCode::kResourceExhausted, "DISK_FULL", "the server's disk is full");
  }
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                 absl::StrCat("the store is damaged: ", sqlite3_errstr(code)));
  }
  return Error(absl::StatusCode::kInternal, "STORE_ERROR",
               absl::StrCat("the store failed to ", std::string(what), ": ", sqlite3_errstr(code)));
}

}  // namespace

SqliteStatement& SqliteStatement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_.get(), index, value);
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int index, std::string_view bytes) {
  // An empty view may have a null pointer, which SQLite would bind as NULL instead of an empty value.
  const char* start = bytes.empty() ? "" : bytes.data();
  sqlite3_bind_blob64(statement_.get(), index, start, bytes.size(), SQLITE_STATIC);
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) {
    return true;
  }
  Reset();
  if (code == SQLITE_DONE) {
    return false;
  }
  return SqliteError(code, "run a statement");
}

absl::Status SqliteStatement::Run() {
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) {
    code = sqlite3_step(statement_.get());
  }
  Reset();
  return code == SQLITE_DONE ? absl::OkStatus() : SqliteError(code, "run a statement");
}

void SqliteStatement::Reset() { sqlite3_reset(statement_.get()); }

std::string_view SqliteStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  return {static_cast<const char*>(bytes), static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path, bool create) {
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
  if (create) {
    // Creates the database's file, because SQLite itself would create it with mode 0644. Opens no existing file:
    // closing another descriptor of a database that this process has open would end SQLite's locks.
    UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)).Reset();
  }
  return OpenWith(path, flags);
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::OpenReader(const std::string& path) {
  // Only a connection that may write can create the index of the write-ahead log, which a reader needs.
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, OpenWith(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX));
  sqlite3_db_config(database.database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  AMPD_RETURN_IF_ERROR(database.Execute("PRAGMA wal_autocheckpoint=0; PRAGMA query_only=1"));
  return database;
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::OpenUnchanging(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    absl::StrAppend(&uri, c == '%' || c == '?' || c == '#' ? absl::StrFormat("%%%02x", c) : std::string(1, c));
  }
  return OpenWith(uri + "?immutable=1", SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX);
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::OpenWith(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  SqliteDatabase database;
  database.database_.reset(raw);
  if (code != SQLITE_OK) {
    return SqliteError(code, "open its file");
  }
  sqlite3_extended_result_codes(raw, 1);
  // Wait up to 5 seconds for a lock. Readers and the writer block each other only around a checkpoint of the
  // write-ahead log.
  sqlite3_busy_timeout(raw, 5000);
  // Limit the page cache to 256 KiB. By default each connection caches up to 2 MiB, so a server's memory would keep
  // growing over thousands of jobs, although the kernel caches the pages too. An error is ignored here: if the file is
  // faulty, the first statement that the caller executes reports that with a better message.
  database.Execute("PRAGMA cache_size=-256").IgnoreError();
  return database;
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteError(code, "run a statement");
}

absl::Status SqliteDatabase::CopyTo(const std::string& path, const std::function<absl::Status()>& between) {
  constexpr int kPagesPerStep = 1024;
  const auto sync = [](const UniqueFd& file) {
    return file.ok() && fdatasync(file.get()) == 0 ? absl::OkStatus() : ErrnoError(errno, "sync a copy");
  };
  // Declared first, so that it is closed last: closing this descriptor ends SQLite's locks on the file.
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  AMPD_RETURN_IF_ERROR(sync(file));
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase copy, Open(path, /*create=*/false));
  AMPD_RETURN_IF_ERROR(copy.Execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"));
  struct Finish {
    void operator()(sqlite3_backup* backup) const { sqlite3_backup_finish(backup); }
  };
  std::unique_ptr<sqlite3_backup, Finish> backup(
      sqlite3_backup_init(copy.database_.get(), "main", database_.get(), "main"));
  int code = backup == nullptr ? sqlite3_extended_errcode(copy.database_.get()) : SQLITE_OK;
  while (code == SQLITE_OK) {
    code = sqlite3_backup_step(backup.get(), kPagesPerStep);
    if (code == SQLITE_OK) {
      AMPD_RETURN_IF_ERROR(sync(file));
      AMPD_RETURN_IF_ERROR(between());
    }
  }
  backup.reset();
  if (code != SQLITE_DONE) {
    return SqliteError(code, "copy its file");
  }
  copy.database_.reset();
  return sync(file);
}

absl::Status NewerSchema(std::string_view what, int64_t found, int64_t known) {
  return Error(absl::StatusCode::kFailedPrecondition, "NEWER_SCHEMA",
               absl::StrCat(std::string(what), " has schema ", found, ", this ampd ", Version(), " knows ", known,
                            "; start the newer version that wrote it, or restore a backup that this version made"));
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                &raw, nullptr);
  if (code != SQLITE_OK) {
    return SqliteError(code, "prepare a statement");
  }
  SqliteStatement statement;
  statement.statement_.reset(raw);
  return statement;
}

}  // namespace ampd::server
