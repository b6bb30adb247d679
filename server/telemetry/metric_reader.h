#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"
#include "base/io/sqlite.h"
#include "server/telemetry/history.h"

namespace ampd::server {

struct PointPage {
  std::vector<PointSegment> segments;
  bool more = false;
  int NumPoints() const;
};

struct EventPage {
  std::vector<v1::Event> events;
  bool more = false;
};

struct LogPage {
  std::string content;
  int64_t offset_bytes = 0;   // Position of the start of `content` in the log.
  int64_t dropped_bytes = 0;  // Text omitted between the requested offset and `content`.
  int64_t end_bytes = 0;      // Position of the end of the stored log.
};

// One read connection to the metric store. Every read is bounded and leaves no transaction open, so that the
// write-ahead log can be reset. Thread-compatible: one thread at a time.
class MetricReader {
 public:
  // Opens the file. REQUIRES: MetricWriter::Open has created it.
  static absl::StatusOr<std::unique_ptr<MetricReader>> Open(const std::string& path);

  // Returns how much of the attempt is stored; zeros if nothing is.
  absl::StatusOr<AttemptExtent> Extent(const std::string& job, int32_t attempt);
  absl::StatusOr<uint64_t> LastEventPosition(const std::string& job);
  // Reads the first `max_points` metric points after (attempt, sequence). A segment contains points of one attempt
  // only. Either all of its points are superseded or none.
  absl::StatusOr<PointPage> ReadPoints(const std::string& job, int32_t attempt, uint64_t sequence, int max_points);
  // Reads the first `max_events` events after position `after` in the job's history. Reads fewer events if a page
  // cannot hold so many.
  absl::StatusOr<EventPage> ReadEvents(const std::string& job, uint64_t after, int max_events);
  // Returns the number of events in the job's history.
  absl::StatusOr<int64_t> CountEvents(const std::string& job);
  absl::StatusOr<LogPage> ReadLog(const std::string& job, int32_t attempt, int64_t offset, int64_t max_bytes);
  // Returns the smallest and the largest step of all metric points; zeros if there are none.
  absl::StatusOr<std::pair<int64_t, int64_t>> StepRange(const std::string& job);
  // Reads at most `max_points` steps and at most `max_points` evaluations: divides the range of steps into `max_points`
  // equal parts and returns the last step and the last evaluation of each part.
  absl::StatusOr<PointPage> Downsample(const std::string& job, int max_points, bool include_superseded);
  // Lists at most `max_jobs` jobs whose last write came before `time`.
  absl::StatusOr<std::vector<std::string>> ListJobsIdleSince(absl::Time time, int max_jobs);

 private:
  // Says which metric points are superseded: those up to (attempt, sequence) whose step is greater than `after_step`.
  struct Supersession {
    int32_t attempt;
    uint64_t sequence;
    int64_t after_step;
  };

  explicit MetricReader(SqliteDatabase database) : database_(std::move(database)) {}
  absl::Status PrepareStatements();
  absl::StatusOr<std::vector<Supersession>> LoadSupersessions(const std::string& job);

  SqliteDatabase database_;
  SqliteStatement extent_, position_, chunks_, events_, count_events_, log_, steps_, idle_, starts_, rollbacks_;
};

}  // namespace ampd::server
