#include "worker/agent/attempt.h"

#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

// A running attempt with a checkpoint of step 20 behind telemetry up to sequence 25.
AttemptOnWorker WithCheckpoint() {
  AttemptOnWorker attempt;
  attempt.held.state = v1::Attempt::RUNNING;
  v1::TelemetryBatch batch;
  for (uint64_t sequence = 1; sequence <= 25; ++sequence) {
    batch.mutable_steps()->add_sequence(sequence);
  }
  attempt.telemetry.Add(std::move(batch));
  attempt.checkpoints.emplace_back().checkpoint.set_step(20);
  attempt.checkpoints.back().after_sequence = 25;
  attempt.checkpoints.back().report_by = kNow + absl::Seconds(1);
  return attempt;
}

TEST(ReportOf, TellsOfACheckpointWhenTheTelemetryBeforeItIsStored) {
  AttemptOnWorker attempt = WithCheckpoint();
  attempt.telemetry.Acknowledge(24);
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 0);
  attempt.telemetry.Acknowledge(25);
  ASSERT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 1);
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints(0).step(), 20);
}

TEST(ReportOf, TellsOfACheckpointWhenItsTimeIsUp) {
  const AttemptOnWorker attempt = WithCheckpoint();
  EXPECT_EQ(ReportOf(attempt, kNow + absl::Milliseconds(999)).checkpoints_size(), 0);
  EXPECT_EQ(ReportOf(attempt, kNow + absl::Seconds(1)).checkpoints_size(), 1);
}

TEST(ReportOf, TellsOfEveryCheckpointWithTheOutcome) {
  AttemptOnWorker attempt = WithCheckpoint();
  attempt.outcome.emplace();
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 0) << "the trainer has not left yet";
  attempt.held.state = v1::Attempt::ENDED;
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 1);
}

TEST(ReportOf, TellsOfACheckpointWhoseTelemetryTheServerDoesNotWant) {
  AttemptOnWorker attempt = WithCheckpoint();
  attempt.telemetry.Refuse();
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 1);
}

}  // namespace
}  // namespace ampd::agent
