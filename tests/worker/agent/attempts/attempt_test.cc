#include "worker/agent/attempts/attempt.h"

#include <utility>

#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

// A running attempt with a checkpoint of step 20 that follows telemetry up to sequence 25.
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
  attempt.checkpoints.back().seen_at = kNow;
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

TEST(ReportOf, TellsOfACheckpointBehindTelemetryThatStandsStill) {
  AttemptOnWorker attempt = WithCheckpoint();
  const absl::Duration almost = kTelemetryStandstill - absl::Milliseconds(1);
  EXPECT_EQ(ReportOf(attempt, kNow + almost).checkpoints_size(), 0);
  EXPECT_EQ(ReportOf(attempt, kNow + kTelemetryStandstill).checkpoints_size(), 1);
  // Telemetry that makes progress is waited for, however long it takes.
  for (uint64_t sequence = 1; sequence <= 24; ++sequence) {
    attempt.telemetry.Acknowledge(sequence);
    attempt.telemetry_stored_at = kNow + static_cast<double>(sequence) * almost;
    EXPECT_EQ(ReportOf(attempt, attempt.telemetry_stored_at + almost).checkpoints_size(), 0) << sequence;
  }
  EXPECT_EQ(ReportOf(attempt, attempt.telemetry_stored_at + kTelemetryStandstill).checkpoints_size(), 1);
}

TEST(ReportOf, TellsOfACheckpointBeforeAllTheTelemetryThatIsThereIsStored) {
  AttemptOnWorker attempt = WithCheckpoint();
  attempt.checkpoints.back().after_sequence = 20;
  attempt.telemetry.Acknowledge(20);
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 1);
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

TEST(TelemetryIsStored, WaitsForWhatTheTrainerHasNotHandedOver) {
  AttemptOnWorker attempt;
  EXPECT_TRUE(TelemetryIsStored(attempt));
  attempt.outcome_after_sequence = 25;  // the outcome was reported before the telemetry
  EXPECT_FALSE(TelemetryIsStored(attempt));
  attempt.telemetry = std::move(WithCheckpoint().telemetry);
  EXPECT_FALSE(TelemetryIsStored(attempt));
  attempt.telemetry.Acknowledge(25);
  EXPECT_TRUE(TelemetryIsStored(attempt));
  attempt.outcome_after_sequence = 26;
  EXPECT_FALSE(TelemetryIsStored(attempt)) << "the relay is empty, and the trainer is not";
  attempt.telemetry.Refuse();
  EXPECT_TRUE(TelemetryIsStored(attempt));
}

}  // namespace
}  // namespace ampd::agent
