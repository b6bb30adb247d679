#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io/sqlite.h"
#include "server/ledger/journal.h"
#include "server/state/cluster_state.h"

namespace ampd::server {

// Version 1 of the schema of "journal.db" has no names of finished jobs; sqlite_journal.h describes this one.
inline constexpr int kJournalSchema = 2;

// The error DATA_LOSS, reason STORE_CORRUPT.
absl::Status JournalIsDamaged(std::string_view what);

// FAILED_PRECONDITION (reason NEWER_SCHEMA) for a schema that only newer servers know.
absl::Status CheckJournalSchema(int64_t version);

// Reads all updates and the snapshot before them, as Journal::Recover.
absl::StatusOr<Journal::Recovered> ReadJournal(SqliteDatabase& database);

// Reads the file of a SqliteJournal without changing it: that of a server that runs, or a copy. Thread-compatible.
class JournalReader {
 public:
  // Begins a transaction, so that everything that is read is of one moment. The errors are those of CheckJournalSchema
  // and of SQLite; DATA_LOSS also if the file has no journal.
  static absl::StatusOr<JournalReader> Open(SqliteDatabase database);

  absl::StatusOr<Journal::Recovered> Recover() { return ReadJournal(database_); }
  // Calls `take` with every job of the history table; its error ends the listing. DATA_LOSS for a damaged record.
  absl::Status ForEachFinished(const std::function<absl::Status(const internal::JobRecord&)>& take);
  SqliteDatabase& database() { return database_; }

 private:
  explicit JournalReader(SqliteDatabase database) : database_(std::move(database)) {}

  SqliteDatabase database_;
};

}  // namespace ampd::server
