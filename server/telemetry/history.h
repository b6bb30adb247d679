#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker_service.pb.h"

// A job's history as watchers see it: points (steps and evaluations), ordered by attempt and telemetry sequence, and
// events, ordered by their position in the job's history. The two orders are independent; a cursor holds a position in
// both.
namespace ampd::server {

// A position in the history. Everything up to it was seen.
struct HistoryCursor {
  int32_t attempt = 0;    // The last point's attempt.
  uint64_t sequence = 0;  // The last point's sequence in its attempt's telemetry.
  uint64_t event = 0;     // The last event's position in the job's history.
  friend bool operator==(const HistoryCursor&, const HistoryCursor&) = default;

  bool HasSeenPoint(int32_t point_attempt, uint64_t point_sequence) const {
    return point_attempt < attempt || (point_attempt == attempt && point_sequence <= sequence);
  }
};

// Convert a cursor to the text with which clients resume, "1.ATTEMPT.SEQUENCE.EVENT", and back. FromResumeToken returns
// nothing for any other text.
std::string ToResumeToken(const HistoryCursor& cursor);
std::optional<HistoryCursor> FromResumeToken(std::string_view token);

// The most steps in one HistoryItem, which keeps a message far below every size limit.
inline constexpr int kMaxStepsInItem = 1024;

// The part of a history that fits in one message: exactly one of the pointers is set. Immutable, and shared by all
// watchers.
struct HistoryItem {
  int32_t attempt = 0;
  std::shared_ptr<const v1::StepColumns> steps;
  std::shared_ptr<const v1::EvalPoint> eval;
  std::shared_ptr<const v1::Event> event;

  int NumPoints() const;
  // Moves `cursor` past this item.
  void Advance(HistoryCursor* cursor) const;
};

// How much of an attempt's telemetry and log is stored.
struct AttemptExtent {
  uint64_t stored_sequence = 0;  // The attempt's telemetry is stored up to here without gaps.
  int64_t log_begin_bytes = 0;   // Text before this offset was dropped.
  int64_t log_end_bytes = 0;
};

// The result of an append that is now durable. `items` holds only what had not been stored before.
struct StoredHistory {
  std::string job;
  int32_t attempt = 0;
  AttemptExtent extent;  // Without change if the append left a gap; zeros for the server's own events.
  std::vector<HistoryItem> items;
};

// Points of one attempt.
struct PointSegment {
  int32_t attempt = 0;
  v1::TelemetryBatch batch;  // Without events.
  bool superseded = false;
};

// Merges points and events into one order: an event of a trainer by its position in the attempt's telemetry, an event
// of the server by time. `more_points` says that the history has more points than are given, and `more_events` the same
// of events. The merge then stops where the order of the remaining ones is unknown; what it leaves out is read again
// for the next page.
std::vector<HistoryItem> MergeHistory(const std::vector<PointSegment>& points, const std::vector<v1::Event>& events,
                                      bool more_points, bool more_events);

}  // namespace ampd::server
