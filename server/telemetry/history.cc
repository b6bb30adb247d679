#include "server/telemetry/history.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "points/telemetry_batch.h"

namespace ampd::server {
namespace {

// Walks the metric points of segments in order, one at a time, and merges neighbouring steps into one item.
class PointWalk {
 public:
  PointWalk(const std::vector<PointSegment>& segments, std::vector<HistoryItem>* items)
      : segments_(segments), items_(items) {
    SkipFinishedSegments();
  }

  bool AtEnd() const { return segment_ == segments_.size(); }
  int32_t attempt() const { return segments_[segment_].attempt; }
  uint64_t sequence() const {
    return NextIsStep() ? steps().sequence(step_) : segments_[segment_].batch.evals(eval_).sequence();
  }
  int64_t time_unix_micros() const {
    return NextIsStep() ? steps().time_unix_micros(step_) : segments_[segment_].batch.evals(eval_).time_unix_micros();
  }

  void Emit() {
    if (NextIsStep()) {
      ++step_;
      if (step_ - run_begin_ == kMaxStepsInItem) {
        Flush();
      }
    } else {
      Flush();
      HistoryItem item;
      item.attempt = attempt();
      item.eval = std::make_shared<v1::EvalPoint>(segments_[segment_].batch.evals(eval_++));
      items_->push_back(std::move(item));
    }
    SkipFinishedSegments();
  }

  // Emits the consecutive steps collected so far as one item.
  void Flush() {
    if (step_ == run_begin_) {
      return;
    }
    auto run = std::make_shared<v1::StepColumns>();
    points::AppendSteps(steps(), run_begin_, step_, run.get());
    HistoryItem item;
    item.attempt = attempt();
    item.steps = std::move(run);
    items_->push_back(std::move(item));
    run_begin_ = step_;
  }

 private:
  const v1::StepColumns& steps() const { return segments_[segment_].batch.steps(); }
  bool NextIsStep() const {
    const v1::TelemetryBatch& batch = segments_[segment_].batch;
    return eval_ == batch.evals_size() ||
           (step_ < points::NumSteps(steps()) && steps().sequence(step_) < batch.evals(eval_).sequence());
  }
  void SkipFinishedSegments() {
    while (!AtEnd() && step_ == points::NumSteps(steps()) && eval_ == segments_[segment_].batch.evals_size()) {
      Flush();
      ++segment_;
      step_ = run_begin_ = eval_ = 0;
    }
  }

  const std::vector<PointSegment>& segments_;
  std::vector<HistoryItem>* items_;
  size_t segment_ = 0;
  int step_ = 0;
  int run_begin_ = 0;  // First step that is not in an item yet.
  int eval_ = 0;
};

bool ComesBefore(const PointWalk& point, const v1::Event& event) {
  if (event.attempt_sequence() == 0) {
    return point.time_unix_micros() <= event.time_unix_micros();
  }
  return std::pair(point.attempt(), point.sequence()) < std::pair(event.attempt(), event.attempt_sequence());
}

}  // namespace

std::string ToResumeToken(const HistoryCursor& cursor) {
  return absl::StrCat("1.", cursor.attempt, ".", cursor.sequence, ".", cursor.event);
}

std::optional<HistoryCursor> FromResumeToken(std::string_view token) {
  std::vector<std::string> parts = absl::StrSplit(absl::string_view(token.data(), token.size()), '.');
  HistoryCursor cursor;
  if (parts.size() != 4 || parts[0] != "1" || !absl::SimpleAtoi(parts[1], &cursor.attempt) || cursor.attempt < 0 ||
      !absl::SimpleAtoi(parts[2], &cursor.sequence) || !absl::SimpleAtoi(parts[3], &cursor.event)) {
    return std::nullopt;
  }
  // SQLite stores these numbers as signed integers. A larger number in a token can't come from this server.
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return cursor.sequence <= kMax && cursor.event <= kMax ? std::optional(cursor) : std::nullopt;
}

int HistoryItem::NumPoints() const {
  if (steps != nullptr) {
    return points::NumSteps(*steps);
  }
  return eval != nullptr ? 1 : 0;
}

void HistoryItem::Advance(HistoryCursor* cursor) const {
  if (event != nullptr) {
    cursor->event = event->sequence();
    return;
  }
  cursor->attempt = attempt;
  cursor->sequence = steps != nullptr ? steps->sequence(points::NumSteps(*steps) - 1) : eval->sequence();
}

std::vector<HistoryItem> MergeHistory(const std::vector<PointSegment>& points, const std::vector<v1::Event>& events,
                                      bool more_points, bool more_events) {
  std::vector<HistoryItem> items;
  PointWalk walk(points, &items);
  for (const v1::Event& event : events) {
    while (!walk.AtEnd() && ComesBefore(walk, event)) {
      walk.Emit();
    }
    if (walk.AtEnd() && more_points) {
      return items;
    }
    if (!walk.AtEnd()) {
      walk.Flush();
    }
    HistoryItem item;
    item.attempt = event.attempt();
    item.event = std::make_shared<v1::Event>(event);
    items.push_back(std::move(item));
  }
  while (!more_events && !walk.AtEnd()) {
    walk.Emit();
  }
  if (!walk.AtEnd()) {
    walk.Flush();
  }
  return items;
}

}  // namespace ampd::server
