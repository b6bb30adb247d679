#include "server/telemetry/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "points/telemetry_batch.h"

namespace ampd::server {
namespace {

v1::Event TrainerEvent(uint64_t position, int32_t attempt, uint64_t attempt_sequence) {
  v1::Event event;
  event.set_sequence(position);
  event.set_attempt(attempt);
  event.set_attempt_sequence(attempt_sequence);
  return event;
}

PointSegment Points(int32_t attempt, std::initializer_list<uint64_t> steps, std::initializer_list<uint64_t> evals) {
  PointSegment segment;
  segment.attempt = attempt;
  for (uint64_t sequence : steps) {
    v1::StepColumns* columns = segment.batch.mutable_steps();
    columns->add_sequence(sequence);
    columns->add_step(static_cast<int64_t>(sequence));
    columns->add_loss(0);
    columns->add_grad_norm(0);
    columns->add_loss_scale(1);
    columns->add_skipped(false);
    columns->add_learning_rate(0);
    columns->add_samples_per_second(0);
    columns->add_data_wait_seconds(0);
    columns->add_memory_allocated_bytes(0);
    columns->add_memory_peak_bytes(0);
    columns->add_time_unix_micros(static_cast<int64_t>(sequence) * 10);
  }
  for (uint64_t sequence : evals) {
    segment.batch.add_evals()->set_sequence(sequence);
  }
  return segment;
}

std::string Show(const std::vector<HistoryItem>& items) {
  std::string shown;
  for (const HistoryItem& item : items) {
    if (item.event != nullptr) {
      shown += "event" + std::to_string(item.event->sequence());
    } else if (item.eval != nullptr) {
      shown += "eval" + std::to_string(item.eval->sequence());
    } else {
      shown +=
          "steps" + std::to_string(item.steps->sequence(0)) + "-" + std::to_string(*item.steps->sequence().rbegin());
    }
    shown += ' ';
  }
  return shown;
}

TEST(MergeHistory, PutsTrainerEventsAtTheirPlaceInTheTelemetry) {
  EXPECT_EQ(
      Show(MergeHistory({Points(1, {1, 2, 4, 7}, {5})}, {TrainerEvent(1, 1, 3), TrainerEvent(2, 1, 6)}, false, false)),
      "steps1-2 event1 steps4-4 eval5 event2 steps7-7 ");
}

TEST(MergeHistory, PutsServerEventsByTime) {
  v1::Event event;
  event.set_sequence(9);
  event.set_time_unix_micros(25);
  EXPECT_EQ(Show(MergeHistory({Points(1, {1, 2, 3}, {})}, {event}, false, false)), "steps1-2 event9 steps3-3 ");
}

TEST(MergeHistory, StopsWhereTheOrderOfTheRestIsUnknown) {
  const std::vector<v1::Event> events = {TrainerEvent(1, 1, 2), TrainerEvent(2, 1, 5)};
  EXPECT_EQ(Show(MergeHistory({Points(1, {1, 3}, {})}, events, /*more_points=*/true, false)),
            "steps1-1 event1 steps3-3 ");
  EXPECT_EQ(Show(MergeHistory({Points(1, {1, 3, 6, 7}, {})}, events, false, /*more_events=*/true)),
            "steps1-1 event1 steps3-3 event2 ");
}

TEST(MergeHistory, CutsLongRunsAndKeepsAttemptsApart) {
  PointSegment first;
  first.attempt = 1;
  for (int i = 1; i <= kMaxStepsInItem + 1; ++i) {
    PointSegment one = Points(1, {static_cast<uint64_t>(i)}, {});
    points::AppendSteps(one.batch.steps(), 0, 1, first.batch.mutable_steps());
  }
  EXPECT_EQ(Show(MergeHistory({first, Points(2, {1}, {})}, {}, false, false)), "steps1-1024 steps1025-1025 steps1-1 ");
}

TEST(ResumeToken, ComesBackAsItWas) {
  const HistoryCursor cursor{3, 12345678901, 77};
  EXPECT_EQ(FromResumeToken(ToResumeToken(cursor)), cursor);
}

TEST(ResumeToken, RefusesAnythingElse) {
  for (const char* token : {"", "1", "2.1.1.1", "1.1.1", "1.1.1.1.1", "1.-1.0.0", "1.x.1.1", "1.1.1.",
                            "1.1.9223372036854775808.1", "1.1.99999999999999999999.1"}) {
    EXPECT_EQ(FromResumeToken(token), std::nullopt) << token;
  }
}

TEST(CheckSteps, RefusesRaggedColumnsAndSequencesThatDoNotGrow) {
  PointSegment good = Points(1, {1, 2}, {});
  EXPECT_TRUE(points::CheckSteps(good.batch.steps()).ok());
  PointSegment ragged = good;
  ragged.batch.mutable_steps()->add_loss(1);
  EXPECT_EQ(points::CheckSteps(ragged.batch.steps()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(points::CheckSteps(Points(1, {2, 2}, {}).batch.steps()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(points::CheckSteps(Points(1, {0}, {}).batch.steps()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ampd::server
