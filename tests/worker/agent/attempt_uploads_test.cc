#include "worker/agent/attempt_uploads.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/agent/fake_link.h"
#include "tests/worker/agent/trainers/left_trainers.h"
#include "worker/shim/attempt_log.h"

namespace ampd::agent {
namespace {

constexpr absl::Duration kNow = absl::Seconds(1000);
constexpr absl::Duration kLogInterval = absl::Milliseconds(300);

// Tests with one attempt, whose trainer an earlier agent started and left running.
class AttemptUploadsTest : public testing::Test {
 protected:
  AttemptUploadsTest() {
    left_.Add("spawn", "j1");
    trainers_.Adopt();
    attempt_ = &attempts_.Add(LeftTrainers::Key("j1"));
    attempt_->spawn_id = "spawn";
  }

  TrainerPool::Options PoolOptions() {
    TrainerPool::Options options;
    options.state_folder = left_.state_folder();
    return options;
  }
  AttemptUploads::Options UploadOptions() {
    AttemptUploads::Options options;
    options.worker = "w1";
    options.link = &link_;
    options.attempts = &attempts_;
    options.trainers = &trainers_;
    options.report_soon = [this] { ++num_changes_; };
    return options;
  }

  void AddTelemetry(uint64_t sequence) {
    v1::TelemetryBatch batch;
    batch.mutable_steps()->add_sequence(sequence);
    attempt_->backlog.AddTelemetry(std::move(batch));
  }
  v1::TelemetryAck Ack(uint64_t sequence, int64_t log_bytes = 0) const {
    v1::TelemetryAck ack;
    *ack.mutable_key() = attempt_->held.key;
    ack.set_stored_sequence(sequence);
    ack.set_stored_log_bytes(log_bytes);
    return ack;
  }

  // Sends the uploads that are due at `now` and returns them as text: "2..5" for telemetry with the sequence numbers 2
  // to 5, "log 5 text" for the chunk "text" of the log at offset 5.
  std::string Sent(absl::Duration now) {
    link_.uploads.clear();
    uploads_.SendAll(now);
    std::string text;
    for (const v1::TelemetryUpload& upload : link_.uploads) {
      EXPECT_EQ(upload.worker(), "w1");
      EXPECT_EQ(upload.key().job_id(), "j1");
      const auto& sequences = upload.batch().steps().sequence();
      absl::StrAppend(&text, text.empty() ? "" : ", ",
                      upload.has_log() ? absl::StrCat("log ", upload.log().offset_bytes(), " ", upload.log().content())
                                       : absl::StrCat(*sequences.begin(), "..", *sequences.rbegin()));
    }
    return text;
  }

  LeftTrainers left_;
  FakeLink link_;
  AttemptList attempts_;
  TrainerPool trainers_{PoolOptions()};
  AttemptOnWorker* attempt_ = nullptr;
  int num_changes_ = 0;
  shim::AttemptLogWriter log_{left_.PathOf("spawn"), shim::AttemptLogWriter::Limits()};
  AttemptUploads uploads_{UploadOptions()};
};

TEST_F(AttemptUploadsTest, Telemetry_IsSentOnceAndAgainOnTheNextStream) {
  AddTelemetry(1);
  EXPECT_EQ(Sent(kNow), "1..1");
  AddTelemetry(2);
  AddTelemetry(3);
  EXPECT_EQ(Sent(kNow), "2..3");
  EXPECT_EQ(Sent(kNow), "");
  uploads_.OnAck(Ack(1), kNow);
  uploads_.OnStreamOpened();
  EXPECT_EQ(Sent(kNow), "2..3");
}

TEST_F(AttemptUploadsTest, TelemetryThatTheLinkDoesNotTake_IsSentLater) {
  AddTelemetry(1);
  link_.capacity = 0;
  EXPECT_EQ(Sent(kNow), "");
  link_.capacity = 1;
  EXPECT_EQ(Sent(kNow), "1..1");
}

TEST_F(AttemptUploadsTest, Log_IsReadAtIntervalsAndSentChunkByChunk) {
  log_.Append("hello");
  EXPECT_EQ(Sent(kNow), "log 0 hello");
  log_.Append(" world");
  EXPECT_EQ(Sent(kNow + kLogInterval), "") << "the first chunk is not stored yet";
  uploads_.OnAck(Ack(0, /*log_bytes=*/5), kNow);
  EXPECT_EQ(Sent(kNow + kLogInterval), "") << "the next look is later";
  EXPECT_EQ(Sent(kNow + 2 * kLogInterval), "log 5  world");
}

TEST_F(AttemptUploadsTest, LogOfAForgottenAttempt_IsReadWithoutWaiting) {
  EXPECT_EQ(Sent(kNow), "");
  log_.Append("end");
  attempt_->held.forgotten = true;
  EXPECT_EQ(Sent(kNow), "log 0 end");
}

TEST_F(AttemptUploadsTest, AttemptWhoseTrainerHasExited_IsDoneWhenItsLogIsStored) {
  log_.Append("end");
  attempt_->held.forgotten = true;
  Sent(kNow);
  EXPECT_FALSE(attempt_->backlog.IsDone(kNow));
  uploads_.OnAck(Ack(0, /*log_bytes=*/3), kNow);
  Sent(kNow);
  EXPECT_FALSE(attempt_->backlog.IsDone(kNow)) << "its trainer may write more";
  left_.End("spawn", 0);
  trainers_.Find("spawn")->Poll(kNow, /*read_trainer=*/true);
  Sent(kNow);
  EXPECT_TRUE(attempt_->backlog.IsDone(kNow));
}

TEST_F(AttemptUploadsTest, LogThatTheServerDoesNotStore_IsGivenUpAfterTenSeconds) {
  log_.Append("end");
  attempt_->held.forgotten = true;
  attempt_->backlog.StartDraining(kNow);
  Sent(kNow);
  Sent(kNow + absl::Seconds(10));
  EXPECT_FALSE(attempt_->backlog.IsDone(kNow + absl::Seconds(10)));
  Sent(kNow + absl::Seconds(11));
  EXPECT_TRUE(attempt_->backlog.IsDone(kNow + absl::Seconds(11)));
}

TEST_F(AttemptUploadsTest, AttemptWithoutATrainer_HasNoLog) {
  attempt_->spawn_id = "";
  attempt_->held.forgotten = true;
  EXPECT_EQ(Sent(kNow), "");
  EXPECT_TRUE(attempt_->backlog.IsDone(kNow));
}

TEST_F(AttemptUploadsTest, AcknowledgedTelemetryBeforeACheckpoint_IsWorthAReport) {
  AddTelemetry(1);
  AddTelemetry(2);
  attempt_->backlog.AddCheckpoint(v1::Checkpoint(), /*after_sequence=*/2, kNow);
  uploads_.OnAck(Ack(1), kNow);
  EXPECT_EQ(num_changes_, 0);
  uploads_.OnAck(Ack(2), kNow);
  EXPECT_EQ(num_changes_, 1);
}

TEST_F(AttemptUploadsTest, AckOfAnAttemptThatIsNotHeld_IsIgnored) {
  v1::TelemetryAck ack = Ack(1);
  ack.mutable_key()->set_token("another");
  uploads_.OnAck(ack, kNow);
  EXPECT_EQ(attempt_->backlog.telemetry().acknowledged(), 0u);
}

}  // namespace
}  // namespace ampd::agent
