#include "base/io/sqlite.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

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
  // Limit the page cache to 256 KiB. By default each connection caches up to 2 MiB of pages, so that a server's memory
  // seems to grow for thousands of jobs, although the kernel caches the pages too. An error is ignored, because the
  // owner's first statement reports a faulty file with a better message.
  database.Execute("PRAGMA cache_size=-256").IgnoreError();
  return database;
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteError(code, "run a statement");
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
