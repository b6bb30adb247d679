#include "worker/agent/attempts/attempt_backlog.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kBacklogTime = absl::Seconds(100);

v1::TelemetryBatch BatchOf(uint64_t first, uint64_t last) {
  v1::TelemetryBatch batch;
  for (uint64_t sequence = first; sequence <= last; ++sequence) {
    batch.mutable_steps()->add_sequence(sequence);
  }
  return batch;
}

v1::TelemetryAck Ack(uint64_t sequence, int64_t log_bytes = 0) {
  v1::TelemetryAck ack;
  ack.set_stored_sequence(sequence);
  ack.set_stored_log_bytes(log_bytes);
  return ack;
}

v1::TelemetryAck Refusal() {
  v1::TelemetryAck ack;
  ack.set_refused(true);
  return ack;
}

void AddCheckpoint(AttemptBacklog& backlog, int64_t step, uint64_t after_sequence) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  backlog.AddCheckpoint(std::move(checkpoint), after_sequence, kBacklogTime);
}

// A backlog with telemetry up to sequence 25, and with a checkpoint of step 20 that must be reported after the
// telemetry up to `after_sequence` is stored.
AttemptBacklog BacklogWithCheckpoint(uint64_t after_sequence = 25) {
  AttemptBacklog backlog;
  backlog.AddTelemetry(BatchOf(1, 25));
  AddCheckpoint(backlog, 20, after_sequence);
  return backlog;
}

// Returns the steps of the checkpoints that may be reported, such as "20 40".
std::string Reportable(const AttemptBacklog& backlog, absl::Duration now = kBacklogTime, bool has_ended = false) {
  return absl::StrJoin(backlog.ReportableCheckpoints(now, has_ended), " ",
                       [](std::string* text, const auto& item) { absl::StrAppend(text, item.step()); });
}

TEST(AttemptBacklog, Checkpoint_IsReportedWhenTheTelemetryBeforeItIsStored) {
  AttemptBacklog backlog = BacklogWithCheckpoint();
  EXPECT_FALSE(backlog.OnAck(Ack(24), kBacklogTime));
  EXPECT_EQ(Reportable(backlog), "");
  EXPECT_TRUE(backlog.OnAck(Ack(25), kBacklogTime));
  EXPECT_EQ(Reportable(backlog), "20");
  EXPECT_FALSE(backlog.OnAck(Ack(25), kBacklogTime)) << "it could be reported before";
}

TEST(AttemptBacklog, CheckpointBehindTelemetryThatStandsStill_IsReported) {
  AttemptBacklog backlog = BacklogWithCheckpoint();
  const absl::Duration almost = kTelemetryStandstill - absl::Milliseconds(1);
  EXPECT_EQ(Reportable(backlog, kBacklogTime + almost), "");
  EXPECT_EQ(Reportable(backlog, kBacklogTime + kTelemetryStandstill), "20");
  // As long as the server stores some telemetry within each time limit, the checkpoint keeps waiting for the rest.
  absl::Duration stored_at = kBacklogTime;
  for (uint64_t sequence = 1; sequence <= 24; ++sequence) {
    stored_at += almost;
    backlog.OnAck(Ack(sequence), stored_at);
    EXPECT_EQ(Reportable(backlog, stored_at + almost), "") << sequence;
  }
  EXPECT_EQ(Reportable(backlog, stored_at + kTelemetryStandstill), "20");
}

TEST(AttemptBacklog, CheckpointBeforeTheNewestTelemetry_DoesNotWaitForThat) {
  AttemptBacklog backlog = BacklogWithCheckpoint(/*after_sequence=*/20);
  EXPECT_TRUE(backlog.OnAck(Ack(20), kBacklogTime));
  EXPECT_EQ(Reportable(backlog), "20");
}

TEST(AttemptBacklog, CheckpointWithoutASequence_FollowsWhatWasReceived) {
  AttemptBacklog backlog = BacklogWithCheckpoint(/*after_sequence=*/0);
  EXPECT_FALSE(backlog.OnAck(Ack(24), kBacklogTime));
  EXPECT_TRUE(backlog.OnAck(Ack(25), kBacklogTime));
}

TEST(AttemptBacklog, EndedAttempt_ReportsEveryCheckpoint) {
  EXPECT_EQ(Reportable(BacklogWithCheckpoint(), kBacklogTime, /*has_ended=*/true), "20");
}

TEST(AttemptBacklog, CheckpointWhoseTelemetryTheServerRefuses_IsReported) {
  AttemptBacklog backlog = BacklogWithCheckpoint();
  EXPECT_TRUE(backlog.OnAck(Refusal(), kBacklogTime));
  EXPECT_EQ(Reportable(backlog), "20");
}

TEST(AttemptBacklog, AcknowledgedCheckpoint_IsReportedNoMore) {
  AttemptBacklog backlog = BacklogWithCheckpoint();
  AddCheckpoint(backlog, 40, 25);
  AddCheckpoint(backlog, 40, 25);  // a repeated checkpoint, as after a new connection of the trainer
  backlog.OnAck(Ack(25), kBacklogTime);
  EXPECT_EQ(Reportable(backlog), "20 40");
  EXPECT_TRUE(backlog.AcknowledgeCheckpoint(20));
  EXPECT_FALSE(backlog.AcknowledgeCheckpoint(20));
  EXPECT_EQ(Reportable(backlog), "40");
}

TEST(AttemptBacklog, StoredSequence_IsAcknowledgedToTheTrainerOnceAConnection) {
  AttemptBacklog backlog = BacklogWithCheckpoint();
  EXPECT_EQ(backlog.ConsumeAcknowledgement(), std::nullopt);
  backlog.OnAck(Ack(10), kBacklogTime);
  EXPECT_EQ(backlog.ConsumeAcknowledgement(), 10u);
  EXPECT_EQ(backlog.ConsumeAcknowledgement(), std::nullopt);
  backlog.OnTrainerConnected();
  EXPECT_EQ(backlog.ConsumeAcknowledgement(), 10u);
  backlog.OnAck(Refusal(), kBacklogTime);
  EXPECT_EQ(backlog.ConsumeAcknowledgement(), 25u) << "nobody wants the rest";
}

TEST(AttemptBacklog, Log_IsSentChunkByChunkAndAgainOnTheNextStream) {
  AttemptBacklog backlog;
  EXPECT_EQ(backlog.NextLogOffset(), 0);
  backlog.OnLogSent(100);
  EXPECT_EQ(backlog.NextLogOffset(), std::nullopt) << "a chunk is in flight";
  backlog.OnAck(Ack(0, /*log_bytes=*/100), kBacklogTime);
  EXPECT_EQ(backlog.NextLogOffset(), 100);
  backlog.OnLogSent(180);
  backlog.OnStreamOpened();
  EXPECT_EQ(backlog.NextLogOffset(), 100);
  // The server has stored more than this agent has sent, because an earlier agent has sent the rest.
  backlog.OnAck(Ack(0, /*log_bytes=*/500), kBacklogTime);
  EXPECT_EQ(backlog.NextLogOffset(), 500);
}

TEST(AttemptBacklog, TelemetryThatWasNotAcknowledged_IsSentAgainOnTheNextStream) {
  AttemptBacklog backlog = BacklogWithCheckpoint();
  ASSERT_NE(backlog.NextBatch(), nullptr);
  backlog.OnBatchSent();
  EXPECT_EQ(backlog.NextBatch(), nullptr);
  backlog.OnStreamOpened();
  ASSERT_NE(backlog.NextBatch(), nullptr);
  EXPECT_EQ(backlog.NextBatch()->steps().sequence_size(), 25);
}

TEST(AttemptBacklog, Telemetry_IsDoneWhenAllThatTheTrainerHasIsStored) {
  AttemptBacklog backlog;
  EXPECT_TRUE(backlog.TelemetryIsDone(kBacklogTime));
  backlog.ExpectTelemetryUpTo(25);  // the outcome announces telemetry that has not arrived yet
  EXPECT_FALSE(backlog.TelemetryIsDone(kBacklogTime));
  backlog.AddTelemetry(BatchOf(1, 25));
  EXPECT_FALSE(backlog.TelemetryIsDone(kBacklogTime));
  backlog.OnAck(Ack(25), kBacklogTime);
  EXPECT_TRUE(backlog.TelemetryIsDone(kBacklogTime));
  EXPECT_FALSE(backlog.IsDone(kBacklogTime)) << "its log is not";
  backlog.SetLogDone(true);
  EXPECT_TRUE(backlog.IsDone(kBacklogTime));
  backlog.ExpectTelemetryUpTo(26);
  EXPECT_FALSE(backlog.TelemetryIsDone(kBacklogTime)) << "the relay is empty, and the trainer is not";
  backlog.OnAck(Refusal(), kBacklogTime);
  EXPECT_TRUE(backlog.TelemetryIsDone(kBacklogTime));
}

TEST(AttemptBacklog, TelemetryThatIsLostWithItsTrainer_IsNotWaitedFor) {
  AttemptBacklog backlog;
  backlog.AddTelemetry(BatchOf(1, 25));
  backlog.ExpectTelemetryUpTo(30);
  EXPECT_TRUE(backlog.OnTrainerExit());
  EXPECT_FALSE(backlog.OnTrainerExit());
  backlog.OnAck(Ack(25), kBacklogTime);
  EXPECT_TRUE(backlog.TelemetryIsDone(kBacklogTime));
}

TEST(AttemptBacklog, Draining_EndsAfterTwoMinutesWithoutProgress) {
  AttemptBacklog backlog;
  backlog.AddTelemetry(BatchOf(1, 25));
  EXPECT_FALSE(backlog.IsDone(kBacklogTime + absl::Hours(1))) << "its outcome is not durable yet";
  backlog.StartDraining(kBacklogTime);
  EXPECT_FALSE(backlog.LogIsOverdue(kBacklogTime + absl::Seconds(10)));
  EXPECT_TRUE(backlog.LogIsOverdue(kBacklogTime + absl::Seconds(11)));
  backlog.OnAck(Ack(10), kBacklogTime + absl::Minutes(2));
  EXPECT_FALSE(backlog.IsDone(kBacklogTime + absl::Minutes(4)));
  EXPECT_FALSE(backlog.TelemetryIsDone(kBacklogTime + absl::Minutes(4)));
  EXPECT_TRUE(backlog.IsDone(kBacklogTime + absl::Minutes(4) + absl::Seconds(1)));
  EXPECT_TRUE(backlog.TelemetryIsDone(kBacklogTime + absl::Minutes(4) + absl::Seconds(1)));
}

}  // namespace
}  // namespace ampd::agent
