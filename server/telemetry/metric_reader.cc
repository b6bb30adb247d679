#include "server/telemetry/metric_reader.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "base/api/page_budget.h"
#include "base/status_macros.h"
#include "points/telemetry_batch.h"
#include "server/telemetry/metric_chunk.h"

namespace ampd::server {
namespace {

constexpr int kScanPage = 4096;

// Collects metric points; starts a segment whenever the attempt or the superseded flag changes.
class PageBuilder {
 public:
  explicit PageBuilder(PointPage* page) : page_(page) {}
  v1::TelemetryBatch* SegmentFor(int32_t attempt, bool superseded) {
    if (page_->segments.empty() || page_->segments.back().attempt != attempt ||
        page_->segments.back().superseded != superseded) {
      PointSegment segment;
      segment.attempt = attempt;
      segment.superseded = superseded;
      page_->segments.push_back(std::move(segment));
    }
    return &page_->segments.back().batch;
  }

 private:
  PointPage* page_;
};

// Divides the range of steps into equal bins. Downsample keeps the last point of each bin.
class Bins {
 public:
  Bins(int64_t first_step, int64_t last_step, int num_bins)
      : first_step_(first_step), width_(static_cast<double>(last_step - first_step + 1) / num_bins) {}
  int64_t BinOf(int64_t step) const { return static_cast<int64_t>(static_cast<double>(step - first_step_) / width_); }

 private:
  int64_t first_step_;
  double width_;
};

}  // namespace

int PointPage::NumPoints() const {
  int num_points = 0;
  for (const PointSegment& segment : segments) {
    num_points += points::NumPoints(segment.batch);
  }
  return num_points;
}

absl::StatusOr<std::unique_ptr<MetricReader>> MetricReader::Open(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(path, /*create=*/false));
  AMPD_RETURN_IF_ERROR(database.Execute("PRAGMA query_only=1; PRAGMA wal_autocheckpoint=0"));
  std::unique_ptr<MetricReader> reader(new MetricReader(std::move(database)));
  AMPD_RETURN_IF_ERROR(reader->PrepareStatements());
  return reader;
}

absl::Status MetricReader::PrepareStatements() {
  const std::pair<SqliteStatement*, std::string_view> statements[] = {
      {&extent_, "SELECT stored_sequence, log_begin, log_end FROM attempts WHERE job=?1 AND attempt=?2"},
      {&position_, "SELECT last_position FROM jobs WHERE job=?1"},
      {&chunks_,
       "SELECT attempt, content FROM chunks WHERE job=?1 AND (attempt, last_sequence) > (?2, ?3) "
       "ORDER BY attempt, last_sequence"},
      {&events_, "SELECT content FROM events WHERE job=?1 AND position>?2 ORDER BY position LIMIT ?3"},
      {&count_events_, "SELECT count(*) FROM events WHERE job=?1"},
      {&log_,
       "SELECT start, size, content FROM log_chunks WHERE job=?1 AND attempt=?2 AND start + size > ?3 "
       "ORDER BY start LIMIT 1"},
      {&steps_, "SELECT min(first_step), max(last_step) FROM chunks WHERE job=?1"},
      {&idle_, "SELECT job FROM jobs WHERE write_time<?1 ORDER BY write_time LIMIT ?2"},
      {&starts_, "SELECT attempt, from_step FROM attempts WHERE job=?1 AND attempt>1 AND stored_sequence>0"},
      {&rollbacks_, "SELECT attempt, sequence, after_step FROM rollbacks WHERE job=?1"},
  };
  for (const auto& [statement, sql] : statements) {
    AMPD_ASSIGN_OR_RETURN(*statement, database_.Prepare(sql));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttemptExtent> MetricReader::Extent(const std::string& job, int32_t attempt) {
  AMPD_ASSIGN_OR_RETURN(bool found, extent_.Bind(1, job).Bind(2, attempt).Step());
  AttemptExtent extent;
  if (found) {
    extent = {static_cast<uint64_t>(extent_.Int(0)), extent_.Int(1), extent_.Int(2)};
  }
  extent_.Reset();
  return extent;
}

absl::StatusOr<uint64_t> MetricReader::LastEventPosition(const std::string& job) {
  AMPD_ASSIGN_OR_RETURN(bool found, position_.Bind(1, job).Step());
  const uint64_t position = found ? static_cast<uint64_t>(position_.Int(0)) : 0;
  position_.Reset();
  return position;
}

absl::StatusOr<std::vector<MetricReader::Supersession>> MetricReader::LoadSupersessions(const std::string& job) {
  std::vector<Supersession> supersessions;
  for (starts_.Bind(1, job);;) {
    AMPD_ASSIGN_OR_RETURN(bool found, starts_.Step());
    if (!found) {
      break;
    }
    supersessions.push_back({static_cast<int32_t>(starts_.Int(0)), 0, starts_.Int(1)});
  }
  for (rollbacks_.Bind(1, job);;) {
    AMPD_ASSIGN_OR_RETURN(bool found, rollbacks_.Step());
    if (!found) {
      break;
    }
    supersessions.push_back(
        {static_cast<int32_t>(rollbacks_.Int(0)), static_cast<uint64_t>(rollbacks_.Int(1)), rollbacks_.Int(2)});
  }
  return supersessions;
}

absl::StatusOr<PointPage> MetricReader::ReadPoints(const std::string& job, int32_t attempt, uint64_t sequence,
                                                   int max_points) {
  AMPD_ASSIGN_OR_RETURN(const std::vector<Supersession> supersessions, LoadSupersessions(job));
  auto is_superseded = [&](int32_t of_attempt, uint64_t of_sequence, int64_t step) {
    return std::any_of(supersessions.begin(), supersessions.end(), [&](const Supersession& s) {
      return std::pair(of_attempt, of_sequence) <= std::pair(s.attempt, s.sequence) && step > s.after_step;
    });
  };
  PointPage page;
  PageBuilder builder(&page);
  int room = max_points;
  chunks_.Bind(1, job).Bind(2, attempt).Bind(3, static_cast<int64_t>(sequence));
  while (true) {
    AMPD_ASSIGN_OR_RETURN(bool found, chunks_.Step());
    if (!found) {
      return page;
    }
    const int32_t chunk_attempt = static_cast<int32_t>(chunks_.Int(0));
    const uint64_t after = chunk_attempt == attempt ? sequence : 0;
    absl::StatusOr<v1::TelemetryBatch> batch = DecodePoints(chunks_.Bytes(1));
    if (!batch.ok()) {
      chunks_.Reset();
      return batch.status();
    }
    const v1::StepColumns& steps = batch->steps();
    int step = points::FirstStepAfter(steps, after);
    int eval = 0;
    while (eval < batch->evals_size() && batch->evals(eval).sequence() <= after) {
      ++eval;
    }
    while (step < points::NumSteps(steps) || eval < batch->evals_size()) {
      if (room-- == 0) {
        chunks_.Reset();
        page.more = true;
        return page;
      }
      if (eval == batch->evals_size() ||
          (step < points::NumSteps(steps) && steps.sequence(step) < batch->evals(eval).sequence())) {
        const bool superseded = is_superseded(chunk_attempt, steps.sequence(step), steps.step(step));
        points::AppendSteps(steps, step, step + 1, builder.SegmentFor(chunk_attempt, superseded)->mutable_steps());
        ++step;
      } else {
        const v1::EvalPoint& point = batch->evals(eval++);
        const bool superseded = is_superseded(chunk_attempt, point.sequence(), point.step());
        *builder.SegmentFor(chunk_attempt, superseded)->add_evals() = point;
      }
    }
  }
}

absl::StatusOr<EventPage> MetricReader::ReadEvents(const std::string& job, uint64_t after, int max_events) {
  EventPage page;
  PageBudget budget;
  events_.Bind(1, job).Bind(2, static_cast<int64_t>(after)).Bind(3, max_events + 1);
  while (true) {
    AMPD_ASSIGN_OR_RETURN(bool found, events_.Step());
    if (!found) {
      return page;
    }
    const std::string_view bytes = events_.Bytes(0);
    if (static_cast<int>(page.events.size()) == max_events || !budget.Take(bytes.size())) {
      page.more = true;
      events_.Reset();
      return page;
    }
    if (!page.events.emplace_back().ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      events_.Reset();
      return absl::DataLossError("an event of the metric store is damaged");
    }
  }
}

absl::StatusOr<int64_t> MetricReader::CountEvents(const std::string& job) {
  AMPD_RETURN_IF_ERROR(count_events_.Bind(1, job).Step().status());
  const int64_t count = count_events_.Int(0);
  count_events_.Reset();
  return count;
}

absl::StatusOr<LogPage> MetricReader::ReadLog(const std::string& job, int32_t attempt, int64_t offset,
                                              int64_t max_bytes) {
  AMPD_ASSIGN_OR_RETURN(const AttemptExtent extent, Extent(job, attempt));
  LogPage page;
  page.end_bytes = extent.log_end_bytes;
  page.offset_bytes = offset;
  while (static_cast<int64_t>(page.content.size()) < max_bytes) {
    const int64_t next = page.offset_bytes + static_cast<int64_t>(page.content.size());
    AMPD_ASSIGN_OR_RETURN(bool found, log_.Bind(1, job).Bind(2, attempt).Bind(3, next).Step());
    const int64_t start = found ? log_.Int(0) : 0;
    if (!found || (start > next && !page.content.empty())) {
      log_.Reset();
      break;
    }
    absl::StatusOr<std::string> text = Decompress(log_.Bytes(2));
    log_.Reset();
    AMPD_RETURN_IF_ERROR(text.status());
    const int64_t first = std::max(start, next);
    if (page.content.empty()) {
      page.dropped_bytes = first - offset;
      page.offset_bytes = first;
    }
    page.content.append(*text, first - start);
  }
  page.content.resize(std::min<size_t>(page.content.size(), max_bytes));
  return page;
}

absl::StatusOr<std::pair<int64_t, int64_t>> MetricReader::StepRange(const std::string& job) {
  AMPD_RETURN_IF_ERROR(steps_.Bind(1, job).Step().status());
  std::pair<int64_t, int64_t> range(steps_.Int(0), steps_.Int(1));
  steps_.Reset();
  return range;
}

absl::StatusOr<PointPage> MetricReader::Downsample(const std::string& job, int max_points, bool include_superseded) {
  AMPD_ASSIGN_OR_RETURN(const auto range, StepRange(job));
  const Bins bins(range.first, range.second, max_points);
  struct Kept {
    PointSegment segment;  // Has exactly one point.
  };
  std::map<int64_t, Kept> steps;
  std::map<int64_t, Kept> evals;
  HistoryCursor cursor;
  for (bool more = true; more;) {
    AMPD_ASSIGN_OR_RETURN(PointPage page, ReadPoints(job, cursor.attempt, cursor.sequence, kScanPage));
    more = page.more;
    for (const PointSegment& segment : page.segments) {
      const v1::TelemetryBatch& batch = segment.batch;
      cursor.attempt = segment.attempt;
      cursor.sequence = 0;
      for (int i = 0; i < points::NumSteps(batch.steps()); ++i) {
        cursor.sequence = std::max<uint64_t>(cursor.sequence, batch.steps().sequence(i));
        const int64_t bin = bins.BinOf(batch.steps().step(i));
        const bool is_last = i + 1 == points::NumSteps(batch.steps()) || bins.BinOf(batch.steps().step(i + 1)) != bin;
        if (is_last && (include_superseded || !segment.superseded)) {
          Kept& kept = steps[bin];
          kept.segment = PointSegment{segment.attempt, {}, segment.superseded};
          points::AppendSteps(batch.steps(), i, i + 1, kept.segment.batch.mutable_steps());
        }
      }
      for (const v1::EvalPoint& eval : batch.evals()) {
        cursor.sequence = std::max<uint64_t>(cursor.sequence, eval.sequence());
        if (include_superseded || !segment.superseded) {
          Kept& kept = evals[bins.BinOf(eval.step())];
          kept.segment = PointSegment{segment.attempt, {}, segment.superseded};
          *kept.segment.batch.add_evals() = eval;
        }
      }
    }
  }
  PointPage result;
  PageBuilder builder(&result);
  for (const auto& [bin, kept] : steps) {
    points::AppendSteps(kept.segment.batch.steps(), 0, 1,
                        builder.SegmentFor(kept.segment.attempt, kept.segment.superseded)->mutable_steps());
  }
  for (const auto& [bin, kept] : evals) {
    *builder.SegmentFor(kept.segment.attempt, kept.segment.superseded)->add_evals() = kept.segment.batch.evals(0);
  }
  return result;
}

absl::StatusOr<std::vector<std::string>> MetricReader::ListJobsIdleSince(absl::Time time, int max_jobs) {
  std::vector<std::string> jobs;
  for (idle_.Bind(1, absl::ToUnixMicros(time)).Bind(2, max_jobs);;) {
    AMPD_ASSIGN_OR_RETURN(bool found, idle_.Step());
    if (!found) {
      return jobs;
    }
    jobs.emplace_back(idle_.Bytes(0));
  }
}

}  // namespace ampd::server
