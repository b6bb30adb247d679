#include "worker/agent/attempts/attempt.h"

#include <utility>

#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

// A running attempt with a checkpoint of step 20. The checkpoint may be reported once telemetry up to sequence 25 is
// stored.
AttemptOnWorker WithCheckpoint() {
  AttemptOnWorker attempt;
  attempt.held.state = v1::Attempt::RUNNING;
  v1::TelemetryBatch batch;
  for (uint64_t sequence = 1; sequence <= 25; ++sequence) {
    batch.mutable_steps()->add_sequence(sequence);
  }
  attempt.backlog.AddTelemetry(std::move(batch));
  v1::Checkpoint checkpoint;
  checkpoint.set_step(20);
  attempt.backlog.AddCheckpoint(std::move(checkpoint), /*after_sequence=*/25, kNow);
  return attempt;
}

TEST(ReportOf, CheckpointWhoseTelemetryIsNotStored_IsLeftOut) {
  AttemptOnWorker attempt = WithCheckpoint();
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 0);
  v1::TelemetryAck ack;
  ack.set_stored_sequence(25);
  attempt.backlog.OnAck(ack, kNow);
  ASSERT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 1);
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints(0).step(), 20);
}

TEST(ReportOf, EndedAttempt_HasItsOutcomeAndEveryCheckpoint) {
  AttemptOnWorker attempt = WithCheckpoint();
  attempt.outcome.emplace();
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 0) << "the trainer has not left yet";
  EXPECT_FALSE(ReportOf(attempt, kNow).has_outcome());
  attempt.held.state = v1::Attempt::ENDED;
  EXPECT_TRUE(ReportOf(attempt, kNow).has_outcome());
  EXPECT_EQ(ReportOf(attempt, kNow).checkpoints_size(), 1);
}

TEST(LivingState, TrainerStateAndOrders_DecideIt) {
  AttemptOnWorker attempt;
  EXPECT_EQ(LivingState(attempt, /*is_suspended=*/false), v1::Attempt::STARTING);
  EXPECT_EQ(LivingState(attempt, /*is_suspended=*/true), v1::Attempt::STARTING) << "nothing computes yet";
  attempt.trainer_state = v1::Attempt::RUNNING;
  EXPECT_EQ(LivingState(attempt, /*is_suspended=*/false), v1::Attempt::RUNNING);
  EXPECT_EQ(LivingState(attempt, /*is_suspended=*/true), v1::Attempt::SUSPENDED);
  attempt.held.sent_desired = v1::Job::PAUSE;
  EXPECT_EQ(LivingState(attempt, /*is_suspended=*/false), v1::Attempt::STOPPING);
  EXPECT_EQ(LivingState(attempt, /*is_suspended=*/true), v1::Attempt::SUSPENDED) << "it can't leave yet";
}

}  // namespace
}  // namespace ampd::agent
