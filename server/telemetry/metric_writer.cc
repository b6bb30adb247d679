#include "server/telemetry/metric_writer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "points/telemetry_batch.h"
#include "server/telemetry/metric_chunk.h"

namespace ampd::server {
namespace {

// Small neighbouring chunks are merged up to these sizes. Smaller chunks would waste space, and larger ones would be
// rewritten too often.
constexpr int kMergedPoints = 1024;
constexpr int64_t kMergedLogBytes = 32 << 10;
constexpr uint64_t kMaxSkipped = 1 << 20;  // The most sequence numbers in one skip; a batch has thousands.

constexpr char kSchema[] = R"sql(
CREATE TABLE jobs(job BLOB PRIMARY KEY, last_position INTEGER NOT NULL, write_time INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE attempts(job BLOB, attempt INTEGER, from_step INTEGER NOT NULL, stored_sequence INTEGER NOT NULL,
  log_begin INTEGER NOT NULL, log_end INTEGER NOT NULL, log_kept INTEGER NOT NULL,
  PRIMARY KEY(job, attempt)) WITHOUT ROWID;
CREATE TABLE chunks(id INTEGER PRIMARY KEY, job BLOB, attempt INTEGER, first_sequence INTEGER, last_sequence INTEGER,
  num_points INTEGER, first_step INTEGER, last_step INTEGER, content BLOB);
CREATE UNIQUE INDEX chunks_by_sequence ON chunks(job, attempt, last_sequence);
CREATE TABLE events(job BLOB, position INTEGER, source INTEGER, source_sequence INTEGER, content BLOB,
  PRIMARY KEY(job, position)) WITHOUT ROWID;
CREATE UNIQUE INDEX events_by_source ON events(job, source, source_sequence);
CREATE TABLE rollbacks(job BLOB, attempt INTEGER, sequence INTEGER, after_step INTEGER,
  PRIMARY KEY(job, attempt, sequence)) WITHOUT ROWID;
CREATE TABLE log_chunks(id INTEGER PRIMARY KEY, job BLOB, attempt INTEGER, start INTEGER, size INTEGER, content BLOB);
CREATE UNIQUE INDEX log_chunks_by_start ON log_chunks(job, attempt, start);
PRAGMA user_version=1;
)sql";

// Returns the smallest and the largest step of the metric points. REQUIRES: there is at least one point.
std::pair<int64_t, int64_t> StepRange(const v1::TelemetryBatch& points) {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (int64_t step : points.steps().step()) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
  for (const v1::EvalPoint& eval : points.evals()) {
    first = std::min<int64_t>(first, eval.step());
    last = std::max<int64_t>(last, eval.step());
  }
  return {first, last};
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricWriter>> MetricWriter::Open(const std::string& path, int64_t max_log_bytes) {
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(path, /*create=*/true));
  AMPD_RETURN_IF_ERROR(
      database.Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                       "PRAGMA journal_size_limit=16777216; PRAGMA wal_autocheckpoint=1000"));
  std::unique_ptr<MetricWriter> writer(new MetricWriter(std::move(database), max_log_bytes));
  AMPD_RETURN_IF_ERROR(writer->CreateSchema());
  AMPD_RETURN_IF_ERROR(writer->PrepareStatements());
  return writer;
}

absl::Status MetricWriter::CreateSchema() {
  AMPD_ASSIGN_OR_RETURN(SqliteStatement version, database_.Prepare("PRAGMA user_version"));
  AMPD_RETURN_IF_ERROR(version.Step().status());
  int64_t found = version.Int(0);
  version.Reset();
  if (found == kMetricSchema) {
    return absl::OkStatus();
  }
  if (found > kMetricSchema) {
    return NewerSchema("the metric store", found, kMetricSchema);
  }
  AMPD_RETURN_IF_ERROR(Begin());
  absl::Status created = database_.Execute(kSchema);
  if (!created.ok()) {
    Rollback();
    return created;
  }
  return Commit();
}

absl::Status MetricWriter::PrepareStatements() {
  const std::pair<SqliteStatement*, std::string_view> statements[] = {
      {&load_job_, "SELECT last_position FROM jobs WHERE job=?1"},
      {&save_job_, "INSERT INTO jobs VALUES(?1,?2,?3) ON CONFLICT(job) DO UPDATE SET last_position=?2, write_time=?3"},
      {&load_attempt_,
       "SELECT from_step, stored_sequence, log_begin, log_end, log_kept FROM attempts WHERE job=?1 AND attempt=?2"},
      {&add_attempt_, "INSERT INTO attempts VALUES(?1,?2,0,0,0,0,0)"},
      {&save_attempt_,
       "UPDATE attempts SET from_step=?3, stored_sequence=?4, log_begin=?5, log_end=?6, log_kept=?7 "
       "WHERE job=?1 AND attempt=?2"},
      {&last_chunk_,
       "SELECT id, num_points, content FROM chunks WHERE job=?1 AND attempt=?2 ORDER BY last_sequence DESC LIMIT 1"},
      {&add_chunk_,
       "INSERT INTO chunks(job, attempt, first_sequence, last_sequence, num_points, first_step, last_step, content) "
       "VALUES(?1,?2,?3,?4,?5,?6,?7,?8)"},
      {&replace_chunk_,
       "UPDATE chunks SET last_sequence=?2, num_points=?3, first_step=?4, last_step=?5, content=?6 WHERE id=?1"},
      {&add_event_, "INSERT INTO events VALUES(?1,?2,?3,?4,?5)"},
      {&find_event_, "SELECT 1 FROM events WHERE job=?1 AND source=?2 AND source_sequence=?3"},
      {&add_rollback_, "INSERT OR REPLACE INTO rollbacks VALUES(?1,?2,?3,?4)"},
      {&last_log_,
       "SELECT id, start, size, content FROM log_chunks WHERE job=?1 AND attempt=?2 ORDER BY start DESC LIMIT 1"},
      {&add_log_, "INSERT INTO log_chunks(job, attempt, start, size, content) VALUES(?1,?2,?3,?4,?5)"},
      {&replace_log_, "UPDATE log_chunks SET size=?2, content=?3 WHERE id=?1"},
      {&first_log_, "SELECT id, start, size FROM log_chunks WHERE job=?1 AND attempt=?2 ORDER BY start LIMIT 1"},
      {&delete_log_, "DELETE FROM log_chunks WHERE id=?1"},
  };
  for (const auto& [statement, sql] : statements) {
    AMPD_ASSIGN_OR_RETURN(*statement, database_.Prepare(sql));
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricWriter::AttemptRow> MetricWriter::LoadAttempt(const std::string& job, int32_t attempt) {
  AMPD_ASSIGN_OR_RETURN(bool found, load_attempt_.Bind(1, job).Bind(2, attempt).Step());
  AttemptRow row;
  if (!found) {
    AMPD_RETURN_IF_ERROR(add_attempt_.Bind(1, job).Bind(2, attempt).Run());
    return row;
  }
  row.from_step = load_attempt_.Int(0);
  row.stored_sequence = static_cast<uint64_t>(load_attempt_.Int(1));
  row.log_begin = load_attempt_.Int(2);
  row.log_end = load_attempt_.Int(3);
  row.log_kept = load_attempt_.Int(4);
  load_attempt_.Reset();
  return row;
}

absl::Status MetricWriter::SaveAttempt(const std::string& job, int32_t attempt, const AttemptRow& row) {
  save_attempt_.Bind(1, job).Bind(2, attempt).Bind(3, row.from_step);
  save_attempt_.Bind(4, static_cast<int64_t>(row.stored_sequence));
  return save_attempt_.Bind(5, row.log_begin).Bind(6, row.log_end).Bind(7, row.log_kept).Run();
}

absl::StatusOr<uint64_t> MetricWriter::LastEventPosition(const std::string& job) {
  AMPD_ASSIGN_OR_RETURN(bool found, load_job_.Bind(1, job).Step());
  uint64_t position = found ? static_cast<uint64_t>(load_job_.Int(0)) : 0;
  load_job_.Reset();
  return position;
}

absl::Status MetricWriter::SaveJob(const std::string& job, uint64_t last_position, absl::Time now) {
  return save_job_.Bind(1, job).Bind(2, static_cast<int64_t>(last_position)).Bind(3, absl::ToUnixMicros(now)).Run();
}

absl::StatusOr<StoredHistory> MetricWriter::AppendTelemetry(const TelemetryAppend& append, absl::Time now) {
  AMPD_ASSIGN_OR_RETURN(AttemptRow row, LoadAttempt(append.job, append.attempt));
  if (const uint64_t first = points::SequenceRange(append.batch).first;
      append.may_have_gap && first > row.stored_sequence + 1) {
    return AppendAfterGap(append, row.stored_sequence + 1, now);
  }
  StoredHistory stored{append.job, append.attempt, row.extent(), {}};
  v1::TelemetryBatch part = points::ContiguousPart(append.batch, row.stored_sequence, &stored.extent.stored_sequence);
  if (stored.extent.stored_sequence == row.stored_sequence) {
    return stored;
  }
  if (row.stored_sequence == 0) {
    row.from_step = append.from_step;
  }
  row.stored_sequence = stored.extent.stored_sequence;
  AMPD_RETURN_IF_ERROR(SaveAttempt(append.job, append.attempt, row));
  AMPD_ASSIGN_OR_RETURN(uint64_t position, LastEventPosition(append.job));
  std::vector<v1::Event> events(part.events().begin(), part.events().end());
  part.clear_events();
  for (v1::Event& event : events) {
    event.set_sequence(++position);
    event.set_attempt(append.attempt);
    AMPD_RETURN_IF_ERROR(WriteEvent(append.job, append.attempt, event.attempt_sequence(), event));
    if (event.kind() == v1::Event::ROLLED_BACK || event.kind() == v1::Event::CHECKPOINT_DAMAGED) {
      AMPD_RETURN_IF_ERROR(MarkRollback(append.job, append.attempt, event.attempt_sequence(), event.step()));
    }
  }
  AMPD_RETURN_IF_ERROR(SaveJob(append.job, position, now));
  AMPD_RETURN_IF_ERROR(WritePoints(append.job, append.attempt, part));
  std::vector<PointSegment> points(1);
  points[0].attempt = append.attempt;
  points[0].batch = std::move(part);
  stored.items = MergeHistory(points, events, /*more_points=*/false, /*more_events=*/false);
  return stored;
}

absl::StatusOr<StoredHistory> MetricWriter::SkipTelemetry(const TelemetrySkip& skip, absl::Time now) {
  AMPD_ASSIGN_OR_RETURN(AttemptRow row, LoadAttempt(skip.job, skip.attempt));
  if (skip.last_sequence < skip.first_sequence || skip.last_sequence - skip.first_sequence > kMaxSkipped) {
    return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_TELEMETRY",
                 absl::StrCat("a batch can't hold sequences ", skip.first_sequence, " to ", skip.last_sequence));
  }
  if (skip.first_sequence > row.stored_sequence + 1 || skip.last_sequence <= row.stored_sequence) {
    return StoredHistory{skip.job, skip.attempt, row.extent(), {}};
  }
  return Skip(skip, now);
}

absl::StatusOr<StoredHistory> MetricWriter::Skip(const TelemetrySkip& skip, absl::Time now) {
  AMPD_ASSIGN_OR_RETURN(AttemptRow row, LoadAttempt(skip.job, skip.attempt));
  row.from_step = row.stored_sequence == 0 ? skip.from_step : row.from_step;
  row.stored_sequence = skip.last_sequence - 1;
  AMPD_RETURN_IF_ERROR(SaveAttempt(skip.job, skip.attempt, row));
  TelemetryAppend event_only{skip.job, skip.attempt, skip.from_step, {}};
  v1::Event& event = *event_only.batch.add_events();
  event.set_kind(v1::Event::TELEMETRY_REFUSED);
  event.set_attempt_sequence(skip.last_sequence);
  event.set_message(
      absl::StrCat("telemetry ", skip.first_sequence, " to ", skip.last_sequence, " was dropped: ", skip.why));
  event.set_time_unix_micros(absl::ToUnixMicros(now));
  return AppendTelemetry(event_only, now);
}

absl::StatusOr<StoredHistory> MetricWriter::AppendAfterGap(const TelemetryAppend& append, uint64_t first_sequence,
                                                           absl::Time now) {
  AMPD_ASSIGN_OR_RETURN(
      StoredHistory stored,
      Skip({append.job, append.attempt, append.from_step, first_sequence, points::SequenceRange(append.batch).first - 1,
            "the server was restored from a backup that was made before it came"},
           now));
  AMPD_ASSIGN_OR_RETURN(StoredHistory rest, AppendTelemetry(append, now));
  stored.extent = rest.extent;
  stored.items.insert(stored.items.end(), rest.items.begin(), rest.items.end());
  return stored;
}

absl::StatusOr<StoredHistory> MetricWriter::AppendServerEvents(const std::string& job,
                                                               const std::vector<v1::Event>& events, absl::Time now) {
  StoredHistory stored{job, 0, {}, {}};
  AMPD_ASSIGN_OR_RETURN(uint64_t position, LastEventPosition(job));
  std::vector<v1::Event> added;
  for (const v1::Event& event : events) {
    find_event_.Bind(1, job).Bind(2, 0).Bind(3, static_cast<int64_t>(event.sequence()));
    AMPD_ASSIGN_OR_RETURN(bool found, find_event_.Step());
    find_event_.Reset();
    if (found) {
      continue;
    }
    added.push_back(event);
    added.back().set_sequence(++position);
    AMPD_RETURN_IF_ERROR(WriteEvent(job, 0, event.sequence(), added.back()));
  }
  AMPD_RETURN_IF_ERROR(SaveJob(job, position, now));
  stored.items = MergeHistory({}, added, /*more_points=*/false, /*more_events=*/false);
  return stored;
}

absl::Status MetricWriter::WritePoints(const std::string& job, int32_t attempt, const v1::TelemetryBatch& points) {
  const int num_points = points::NumPoints(points);
  if (num_points == 0) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(bool found, last_chunk_.Bind(1, job).Bind(2, attempt).Step());
  if (found && last_chunk_.Int(1) + num_points <= kMergedPoints) {
    const int64_t id = last_chunk_.Int(0);
    absl::StatusOr<v1::TelemetryBatch> merged = DecodePoints(last_chunk_.Bytes(2));
    last_chunk_.Reset();
    AMPD_RETURN_IF_ERROR(merged.status());
    // The rows of a chunk must have the same columns. Merging would lose or shorten columns that only a newer version
    // knows, so such points are not merged.
    if (points::HasUnknownColumns(merged->steps()) || points::HasUnknownColumns(points.steps())) {
      return AddChunk(job, attempt, points);
    }
    points::AppendSteps(points.steps(), 0, points::NumSteps(points.steps()), merged->mutable_steps());
    merged->mutable_evals()->MergeFrom(points.evals());
    const std::string content = EncodePoints(*merged);
    replace_chunk_.Bind(1, id)
        .Bind(2, static_cast<int64_t>(points::LastPoint(points)))
        .Bind(3, points::NumPoints(*merged));
    const auto [first_step, last_step] = StepRange(*merged);
    return replace_chunk_.Bind(4, first_step).Bind(5, last_step).Bind(6, content).Run();
  }
  last_chunk_.Reset();
  return AddChunk(job, attempt, points);
}

absl::Status MetricWriter::AddChunk(const std::string& job, int32_t attempt, const v1::TelemetryBatch& points) {
  const std::string content = EncodePoints(points);
  add_chunk_.Bind(1, job).Bind(2, attempt).Bind(3, static_cast<int64_t>(points::FirstPoint(points)));
  add_chunk_.Bind(4, static_cast<int64_t>(points::LastPoint(points))).Bind(5, points::NumPoints(points));
  const auto [first_step, last_step] = StepRange(points);
  return add_chunk_.Bind(6, first_step).Bind(7, last_step).Bind(8, content).Run();
}

absl::Status MetricWriter::WriteEvent(const std::string& job, int32_t source, uint64_t source_sequence,
                                      const v1::Event& event) {
  const std::string content = event.SerializeAsString();
  add_event_.Bind(1, job).Bind(2, static_cast<int64_t>(event.sequence())).Bind(3, source);
  return add_event_.Bind(4, static_cast<int64_t>(source_sequence)).Bind(5, content).Run();
}

absl::StatusOr<AttemptExtent> MetricWriter::AppendLog(const std::string& job, int32_t attempt,
                                                      const v1::LogChunk& chunk) {
  AMPD_ASSIGN_OR_RETURN(AttemptRow row, LoadAttempt(job, attempt));
  const int64_t end = chunk.offset_bytes() + static_cast<int64_t>(chunk.content().size());
  const bool leaves_gap = chunk.offset_bytes() - chunk.dropped_bytes() > row.log_end;
  if (end <= row.log_end || leaves_gap) {
    return row.extent();
  }
  const int64_t start = std::max(chunk.offset_bytes(), row.log_end);
  std::string_view text = std::string_view(chunk.content()).substr(start - chunk.offset_bytes());
  AMPD_RETURN_IF_ERROR(WriteLog(job, attempt, start, text));
  row.log_end = end;
  row.log_kept += static_cast<int64_t>(text.size());
  AMPD_RETURN_IF_ERROR(TrimLog(job, attempt, &row));
  AMPD_RETURN_IF_ERROR(SaveAttempt(job, attempt, row));
  return row.extent();
}

absl::Status MetricWriter::WriteLog(const std::string& job, int32_t attempt, int64_t offset, std::string_view text) {
  AMPD_ASSIGN_OR_RETURN(bool found, last_log_.Bind(1, job).Bind(2, attempt).Step());
  const int64_t size = found ? last_log_.Int(2) : 0;
  const int64_t merged_size = size + static_cast<int64_t>(text.size());
  if (found && last_log_.Int(1) + size == offset && merged_size <= kMergedLogBytes) {
    const int64_t id = last_log_.Int(0);
    absl::StatusOr<std::string> merged = Decompress(last_log_.Bytes(3));
    last_log_.Reset();
    AMPD_RETURN_IF_ERROR(merged.status());
    merged->append(text);
    const std::string content = Compress(*merged);
    return replace_log_.Bind(1, id).Bind(2, merged_size).Bind(3, content).Run();
  }
  last_log_.Reset();
  const std::string content = Compress(text);
  add_log_.Bind(1, job).Bind(2, attempt).Bind(3, offset).Bind(4, static_cast<int64_t>(text.size()));
  return add_log_.Bind(5, content).Run();
}

// Drops the oldest chunks until the log is within its size limit.
absl::Status MetricWriter::TrimLog(const std::string& job, int32_t attempt, AttemptRow* row) {
  while (row->log_kept > max_log_bytes_) {
    AMPD_ASSIGN_OR_RETURN(bool found, first_log_.Bind(1, job).Bind(2, attempt).Step());
    if (!found) {
      break;
    }
    const int64_t id = first_log_.Int(0);
    row->log_begin = first_log_.Int(1) + first_log_.Int(2);
    row->log_kept -= first_log_.Int(2);
    first_log_.Reset();
    AMPD_RETURN_IF_ERROR(delete_log_.Bind(1, id).Run());
  }
  return absl::OkStatus();
}

absl::Status MetricWriter::MarkRollback(const std::string& job, int32_t attempt, uint64_t sequence,
                                        int64_t after_step) {
  add_rollback_.Bind(1, job).Bind(2, attempt).Bind(3, static_cast<int64_t>(sequence)).Bind(4, after_step);
  return add_rollback_.Run();
}

absl::Status MetricWriter::DeleteJob(const std::string& job) {
  for (std::string_view table : {"jobs", "attempts", "chunks", "events", "rollbacks", "log_chunks"}) {
    const std::string sql = absl::StrCat("DELETE FROM ", std::string(table), " WHERE job=?1");
    AMPD_ASSIGN_OR_RETURN(SqliteStatement statement, database_.Prepare(sql));
    AMPD_RETURN_IF_ERROR(statement.Bind(1, job).Run());
  }
  return absl::OkStatus();
}

}  // namespace ampd::server
