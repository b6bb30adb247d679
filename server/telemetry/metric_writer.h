#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/io/sqlite.h"
#include "server/telemetry/history.h"

namespace ampd::server {

inline constexpr int64_t kMetricSchema = 1;

// The part of a job's history that the journal of the same backup accounts for.
struct KnownHistory {
  uint64_t last_event = 0;  // The number of the last event of the server.
  int32_t num_attempts = 0;
};

// A part of one attempt's telemetry to store.
struct TelemetryAppend {
  std::string job;
  int32_t attempt = 0;
  // The step of the checkpoint from which the attempt started. Later steps of earlier attempts are superseded.
  int64_t from_step = 0;
  v1::TelemetryBatch batch;
  // Whether the telemetry between the stored part and `batch` may be lost for good. If it is, an event is stored in its
  // place.
  bool may_have_gap = false;
};

// A range of sequence numbers whose telemetry was refused and is not stored.
struct TelemetrySkip {
  std::string job;
  int32_t attempt = 0;
  int64_t from_step = 0;  // See TelemetryAppend::from_step.
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  std::string why;
};

// The only write connection to the metric store; owns its schema. Single-threaded; owned by the store's writer thread.
// Every method runs inside the transaction of Begin and Commit and keeps nothing in memory, so Rollback undoes it.
//
// The tables of schema 1:
//
//   jobs        position of the last event, time of the last write
//   attempts    step started from, last sequence number stored without a gap, kept range of the log
//   chunks      metric points
//   events      by position in the job's history. `source` is 0 for an event of the server, and `source_sequence` then
//               counts the server's events. Otherwise they are the attempt and the sequence number in its telemetry.
//   rollbacks   which metric points are superseded
//   log_chunks  log text
class MetricWriter {
 public:
  // Creates the schema if the file is new. FAILED_PRECONDITION with reason NEWER_SCHEMA if a newer server wrote the
  // file.
  static absl::StatusOr<std::unique_ptr<MetricWriter>> Open(const std::string& path, int64_t max_log_bytes);

  absl::Status Begin() { return database_.Execute("BEGIN IMMEDIATE"); }
  absl::Status Commit() { return database_.Execute("COMMIT"); }
  void Rollback() { (void)database_.Execute("ROLLBACK"); }

  // Sets a savepoint inside the transaction. Everything written after Save can be kept or undone separately.
  absl::Status Save() { return database_.Execute("SAVEPOINT one"); }
  absl::Status KeepSaved() { return database_.Execute("RELEASE one"); }
  absl::Status UndoSaved() { return database_.Execute("ROLLBACK TO one; RELEASE one"); }

  // Stores the part of the batch that directly follows the attempt's stored sequence. If there is a gap between the
  // two, stores nothing, unless `may_have_gap` is set.
  absl::StatusOr<StoredHistory> AppendTelemetry(const TelemetryAppend& append, absl::Time now);
  // Stores one event in place of the skipped telemetry, if all earlier telemetry is stored. INVALID_ARGUMENT if the
  // range is larger than a batch can be.
  absl::StatusOr<StoredHistory> SkipTelemetry(const TelemetrySkip& skip, absl::Time now);
  // Stores events of the server. The `sequence` of each is its number among the server's events for the job. Skips
  // events that are already stored.
  absl::StatusOr<StoredHistory> AppendServerEvents(const std::string& job, const std::vector<v1::Event>& events,
                                                   absl::Time now);
  // Adds the chunk to the attempt's log. A chunk that would leave a gap in the log is not stored, unless it reports the
  // missing text as dropped.
  absl::StatusOr<AttemptExtent> AppendLog(const std::string& job, int32_t attempt, const v1::LogChunk& chunk);
  absl::Status DeleteJob(const std::string& job);

  // Deletes everything that is newer than the journal's last update: whole histories of jobs that are not `known`,
  // later events of the server, and telemetry of later attempts. Runs in a transaction of its own. In metric_trim.cc.
  absl::Status Trim(const std::map<std::string, KnownHistory>& known);

 private:
  // Stores one event in place of the skipped telemetry. The next batch of the attempt then follows without a gap.
  // REQUIRES: the skipped range contains the first sequence number that is not stored.
  absl::StatusOr<StoredHistory> Skip(const TelemetrySkip& skip, absl::Time now);
  // Stores a batch that follows a gap, and an event in place of the gap.
  absl::StatusOr<StoredHistory> AppendAfterGap(const TelemetryAppend& append, uint64_t first_sequence, absl::Time now);
  // Marks metric points with a step beyond `after_step` as superseded: those of `attempt` up to `sequence`, and those
  // of all earlier attempts.
  absl::Status MarkRollback(const std::string& job, int32_t attempt, uint64_t sequence, int64_t after_step);
  struct AttemptRow {
    int64_t from_step = 0;
    uint64_t stored_sequence = 0;
    int64_t log_begin = 0;
    int64_t log_end = 0;
    int64_t log_kept = 0;
    AttemptExtent extent() const { return {stored_sequence, log_begin, log_end}; }
  };

  explicit MetricWriter(SqliteDatabase database, int64_t max_log_bytes)
      : database_(std::move(database)), max_log_bytes_(max_log_bytes) {}
  absl::Status CreateSchema();
  absl::Status PrepareStatements();
  absl::StatusOr<AttemptRow> LoadAttempt(const std::string& job, int32_t attempt);
  absl::Status SaveAttempt(const std::string& job, int32_t attempt, const AttemptRow& row);
  absl::StatusOr<uint64_t> LastEventPosition(const std::string& job);
  absl::Status SaveJob(const std::string& job, uint64_t last_position, absl::Time now);
  absl::Status AddChunk(const std::string& job, int32_t attempt, const v1::TelemetryBatch& points);
  absl::Status WritePoints(const std::string& job, int32_t attempt, const v1::TelemetryBatch& points);
  absl::Status WriteEvent(const std::string& job, int32_t source, uint64_t source_sequence, const v1::Event& event);
  absl::Status WriteLog(const std::string& job, int32_t attempt, int64_t offset, std::string_view text);
  absl::Status TrimJob(const std::string& job, const KnownHistory& known);
  absl::StatusOr<std::vector<std::string>> Jobs();
  absl::Status TrimLog(const std::string& job, int32_t attempt, AttemptRow* row);

  SqliteDatabase database_;
  int64_t max_log_bytes_;
  SqliteStatement load_job_, save_job_, load_attempt_, add_attempt_, save_attempt_, last_chunk_, add_chunk_,
      replace_chunk_, add_event_, find_event_, add_rollback_, last_log_, add_log_, replace_log_, first_log_,
      delete_log_;
};

}  // namespace ampd::server
