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
// events, ordered by their place in the job's history. The two orders are independent; a cursor holds a place in both.
namespace ampd::server {

// Everything up to here was seen.
struct HistoryCursor {
  int32_t attempt = 0;    // of the last point
  uint64_t sequence = 0;  // of the last point, in its attempt's telemetry
  uint64_t event = 0;     // of the last event, in the job's history
  friend bool operator==(const HistoryCursor&, const HistoryCursor&) = default;

  bool HasSeenPoint(int32_t point_attempt, uint64_t point_sequence) const {
    return point_attempt < attempt || (point_attempt == attempt && point_sequence <= sequence);
  }
};

// The text clients hand back to go on from a cursor: "1.ATTEMPT.SEQUENCE.EVENT". Nothing when it is not such a text.
std::string ToResumeToken(const HistoryCursor& cursor);
std::optional<HistoryCursor> FromResumeToken(std::string_view token);

// So that one message stays far below every limit.
inline constexpr int kMaxStepsInItem = 1024;

// One message's worth of history: exactly one of the pointers is set. Shared by all watchers, never changed.
struct HistoryItem {
  int32_t attempt = 0;
  std::shared_ptr<const v1::StepColumns> steps;
  std::shared_ptr<const v1::EvalPoint> eval;
  std::shared_ptr<const v1::Event> event;

  int NumPoints() const;
  // Moves `cursor` past this item.
  void Advance(HistoryCursor* cursor) const;
};

// How much of an attempt is stored.
struct AttemptExtent {
  uint64_t stored_sequence = 0;  // of its telemetry, without gaps
  int64_t log_begin_bytes = 0;   // older text was dropped
  int64_t log_end_bytes = 0;
};

// What an append made durable: `items` holds only what was not there before.
struct StoredHistory {
  std::string job;
  int32_t attempt = 0;
  AttemptExtent extent;  // unchanged when the append left a gap; zeros for the server's own events
  std::vector<HistoryItem> items;
};

// Points of one attempt.
struct PointSegment {
  int32_t attempt = 0;
  v1::TelemetryBatch batch;  // without events
  bool superseded = false;
};

// Brings points and events into one order: a trainer's event at its place in the attempt's telemetry, a server's event
// by time. When more points (events) follow than are given, `more_points` (`more_events`) stops the merge where the
// order of the rest is not known; what is left out comes again with the next page.
std::vector<HistoryItem> MergeHistory(const std::vector<PointSegment>& points, const std::vector<v1::Event>& events,
                                      bool more_points, bool more_events);

}  // namespace ampd::server
