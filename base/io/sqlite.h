#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Classes that own SQLite's C objects. Errors have the reason DISK_FULL for a full disk (RESOURCE_EXHAUSTED),
// STORE_CORRUPT for a damaged file (DATA_LOSS) and STORE_ERROR otherwise. Error messages contain neither SQL nor paths,
// because some of them reach clients.
namespace ampd::server {

// Makes the FAILED_PRECONDITION error NEWER_SCHEMA for a database with the schema `found`. This program knows only the
// schemas up to `known`. `what` names the database, as the subject of a sentence.
absl::Status NewerSchema(std::string_view what, int64_t found, int64_t known);

// One prepared SQL statement. It can be bound, stepped and reset repeatedly. Thread-compatible.
class SqliteStatement {
 public:
  SqliteStatement() = default;

  // Binds a value to a parameter; parameters are numbered from 1. `bytes` must live until the next Reset.
  SqliteStatement& Bind(int index, int64_t value);
  SqliteStatement& Bind(int index, std::string_view bytes);

  // Returns true if there is a row to read, false at the end. After false or an error the statement is reset.
  absl::StatusOr<bool> Step();
  // Steps the statement to its end and ignores the rows.
  absl::Status Run();
  void Reset();

  // Read a column of the current row; columns are numbered from 0. Views are valid until the next Step or Reset.
  int64_t Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string_view Bytes(int column) const;
  bool IsNull(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

 private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One connection to a database file. Thread-compatible: one thread at a time.
class SqliteDatabase {
 public:
  // Opens the database file. If the file is missing, creates it if `create` is true; otherwise returns an error. A new
  // file, and the files that SQLite puts beside it, are accessible to their owner only.
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path, bool create);
  // Opens an existing file for reading. Another process may have the file open and write to it. The connection runs no
  // checkpoint of the write-ahead log, not even when it is closed and was the last connection.
  static absl::StatusOr<SqliteDatabase> OpenReader(const std::string& path);
  // Opens an existing file that nobody changes, such as a file of a backup. Creates no files beside it, and ignores a
  // write-ahead log.
  static absl::StatusOr<SqliteDatabase> OpenUnchanging(const std::string& path);

  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(std::string_view sql);

  // Writes a copy of this database to the new file `path` and syncs it. If a transaction is open, the copy has what the
  // transaction sees; other connections may write meanwhile. The pages are copied and synced some megabytes at a time,
  // so that other programs do not wait long for the disk. `between` is called after each of these parts. If it returns
  // an error, CopyTo stops and returns that error.
  absl::Status CopyTo(const std::string& path, const std::function<absl::Status()>& between);

 private:
  static absl::StatusOr<SqliteDatabase> OpenWith(const std::string& path, int flags);
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace ampd::server
