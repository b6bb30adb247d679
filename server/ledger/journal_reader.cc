#include "server/ledger/journal_reader.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::server {

absl::Status JournalIsDamaged(std::string_view what) {
  return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
               absl::StrCat("the journal is damaged: ", std::string(what)));
}

absl::Status CheckJournalSchema(int64_t version) {
  return version <= kJournalSchema ? absl::OkStatus() : NewerSchema("the journal", version, kJournalSchema);
}

absl::StatusOr<Journal::Recovered> ReadJournal(SqliteDatabase& database) {
  Journal::Recovered recovered;
  AMPD_ASSIGN_OR_RETURN(SqliteStatement snapshot, database.Prepare("SELECT idx, bytes FROM snapshots WHERE id = 1"));
  AMPD_ASSIGN_OR_RETURN(const bool has_snapshot, snapshot.Step());
  if (has_snapshot) {
    recovered.snapshot_index = static_cast<uint64_t>(snapshot.Int(0));
    recovered.snapshot = snapshot.Bytes(1);
  }
  AMPD_ASSIGN_OR_RETURN(SqliteStatement updates,
                        database.Prepare("SELECT idx, bytes FROM updates WHERE idx > ?1 ORDER BY idx"));
  updates.Bind(1, static_cast<int64_t>(recovered.snapshot_index));
  uint64_t expected = recovered.snapshot_index + 1;
  for (;;) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, updates.Step());
    if (!has_row) {
      return recovered;
    }
    if (static_cast<uint64_t>(updates.Int(0)) != expected) {
      return JournalIsDamaged(absl::StrCat("update ", expected, " is missing"));
    }
    ++expected;
    recovered.updates.emplace_back(updates.Bytes(1));
  }
}

absl::StatusOr<JournalReader> JournalReader::Open(SqliteDatabase database) {
  AMPD_RETURN_IF_ERROR(database.Execute("BEGIN"));
  int64_t version = 0;
  {
    AMPD_ASSIGN_OR_RETURN(SqliteStatement query, database.Prepare("PRAGMA user_version"));
    AMPD_RETURN_IF_ERROR(query.Step().status());
    version = query.Int(0);
  }
  AMPD_RETURN_IF_ERROR(CheckJournalSchema(version));
  if (version == 0) {
    return JournalIsDamaged("it is empty");
  }
  return JournalReader(std::move(database));
}

absl::Status JournalReader::ForEachFinished(const std::function<absl::Status(const internal::JobRecord&)>& take) {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement jobs, database_.Prepare("SELECT id, bytes FROM finished_jobs ORDER BY id"));
  for (;;) {
    AMPD_ASSIGN_OR_RETURN(const bool has_row, jobs.Step());
    if (!has_row) {
      return absl::OkStatus();
    }
    internal::JobRecord record;
    const std::string_view bytes = jobs.Bytes(1);
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || record.job().id() != jobs.Bytes(0)) {
      return JournalIsDamaged(
          absl::StrCat("the record of the finished job ", std::string(jobs.Bytes(0)), " can't be read"));
    }
    AMPD_RETURN_IF_ERROR(take(record));
  }
}

}  // namespace ampd::server
