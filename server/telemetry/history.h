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

// A job's history as watchers see it. It has metric points (steps and evaluations), ordered by attempt and telemetry
// sequence, and events, ordered by their position in the job's history. The two orders are independent; a cursor is a
// position in both.
namespace ampd::server {

// A position in the history. The reader has seen everything up to it.
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
// nullopt for any other text.
std::string ToResumeToken(const HistoryCursor& cursor);
std::optional<HistoryCursor> FromResumeToken(std::string_view token);

// The most steps in one HistoryItem. This limit keeps every message far below all size limits.
inline constexpr int kMaxStepsInItem = 1024;

// A part of a history that fits into one message. Exactly one of the pointers is set. Immutable, and shared by all
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

// Describes how much of an attempt's telemetry and log is stored.
struct AttemptExtent {
  uint64_t stored_sequence = 0;  // The attempt's telemetry is stored up to here without gaps.
  int64_t log_begin_bytes = 0;   // Text before this offset was dropped.
  int64_t log_end_bytes = 0;
};

// The result of an append that is now durable. `items` has only items that were not stored before this append.
struct StoredHistory {
  std::string job;
  int32_t attempt = 0;
  AttemptExtent extent;  // Unchanged if the append left a gap; zeros for the server's own events.
  std::vector<HistoryItem> items;
};

// Consecutive metric points of one attempt.
struct PointSegment {
  int32_t attempt = 0;
  v1::TelemetryBatch batch;  // Has points only, no events.
  bool superseded = false;
};

// Merges points and events into one order. A trainer's event is ordered by its position in the attempt's telemetry, a
// server's event by its time. `more_points` says that the history has points after `points`, and `more_events` that it
// has events after `events`. The merge then stops where those later items could come first; the next page reads the
// left-out items again.
std::vector<HistoryItem> MergeHistory(const std::vector<PointSegment>& points, const std::vector<v1::Event>& events,
                                      bool more_points, bool more_events);

}  // namespace ampd::server
