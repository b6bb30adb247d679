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

// The schema version of "journal.db", which sqlite_journal.h describes. Version 1 lacks the names of finished jobs.
inline constexpr int kJournalSchema = 2;

// Returns the error for a damaged journal: DATA_LOSS, reason STORE_CORRUPT.
absl::Status JournalIsDamaged(std::string_view what);

// Returns FAILED_PRECONDITION (reason NEWER_SCHEMA) if only newer servers know this schema version.
absl::Status CheckJournalSchema(int64_t version);

// Returns the newest snapshot and all updates after it, in the same way as Journal::Recover.
absl::StatusOr<Journal::Recovered> ReadJournal(SqliteDatabase& database);

// Reads the file of a SqliteJournal without changing it. The file may be that of a running server, or a copy.
// Thread-compatible.
class JournalReader {
 public:
  // Begins a transaction, so that all reads see the journal at one moment. Errors: those of CheckJournalSchema and of
  // SQLite; DATA_LOSS if the file has no journal.
  static absl::StatusOr<JournalReader> Open(SqliteDatabase database);

  absl::StatusOr<Journal::Recovered> Recover() { return ReadJournal(database_); }
  // Calls `take` with every job of the history table. If `take` returns an error, stops and returns that error.
  // DATA_LOSS for a damaged record.
  absl::Status ForEachFinished(const std::function<absl::Status(const internal::JobRecord&)>& take);
  SqliteDatabase& database() { return database_; }

 private:
  explicit JournalReader(SqliteDatabase database) : database_(std::move(database)) {}

  SqliteDatabase database_;
};

}  // namespace ampd::server
