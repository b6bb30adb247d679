#include "server/telemetry/watch_session.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "points/telemetry_batch.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

constexpr char kJob[] = "j";

// A store and a hub, connected in the same way as in the server, and a job record that the test changes.
class WatchSessionTest : public testing::Test {
 protected:
  WatchSessionTest() : hub_({/*max_points=*/100, /*max_events=*/10}) {
    store_.on_stored = [this](const StoredHistory& stored) { hub_.PublishHistory(stored); };
    job_.set_id(kJob);
    job_.set_state(v1::Job::RUNNING);
    job_.set_num_attempts(1);
    job_.add_attempts()->set_number(1);
  }

  std::unique_ptr<WatchSession> Watch(std::string token = "", bool from_start = false) {
    WatchSession::Options options;
    options.job = kJob;
    if (!token.empty()) {
      options.resume_from = FromResumeToken(token);
    }
    options.from_start = from_start;
    options.get_job = [this] { return found_.ok() ? absl::StatusOr<v1::Job>(job_) : found_; };
    options.add_progress = [this](v1::Job* job) { job->mutable_progress()->set_total_steps(total_steps_); };
    options.progress = [this] { return progress_; };
    options.store = &*store_;
    options.hub = &hub_;
    options.clock = &store_.clock();
    options.on_ready = [] {};
    return std::make_unique<WatchSession>(std::move(options));
  }

  // Reads messages until WAIT or END, and returns them as text, such as "snapshot steps1-3 eval4 event1 wait".
  std::string Drain(WatchSession* session) {
    std::string shown;
    while (true) {
      WatchSession::Step step = session->Next();
      if (step.kind == WatchSession::Step::WAIT) {
        return shown + "wait";
      }
      if (step.kind == WatchSession::Step::END) {
        end_ = step.status;
        return shown + "end";
      }
      shown += Show(step.message) + " ";
      token_ = step.message.resume_token();
      num_dropped_ += step.message.dropped_points();
    }
  }

  std::string Show(const v1::WatchJobResponse& message) {
    switch (message.kind_case()) {
      case v1::WatchJobResponse::kSteps:
        return "steps" + std::to_string(message.steps().sequence(0)) + "-" +
               std::to_string(*message.steps().sequence().rbegin());
      case v1::WatchJobResponse::kEval:
        return "eval" + std::to_string(message.eval().sequence());
      case v1::WatchJobResponse::kEvent:
        return "event" + std::to_string(message.event().sequence());
      case v1::WatchJobResponse::kSnapshot:
        return "snapshot";
      case v1::WatchJobResponse::kHeartbeat:
        return "heartbeat";
      case v1::WatchJobResponse::kFinal:
        return "final";
      default:
        return "nothing";
    }
  }

  void SetJob(v1::Job::State state, uint64_t last_sequence = 0) {
    job_.set_state(state);
    job_.mutable_attempts(0)->mutable_outcome()->set_last_sequence(last_sequence);
    hub_.PublishJob(std::make_shared<v1::Job>(job_));
  }

  StoreOnDisk store_;
  MetricsHub hub_;
  v1::Job job_;
  absl::Status found_;       // If not OK, the session does not find the job, and gets this error.
  int64_t total_steps_ = 0;  // Total steps of the job on the progress board.
  std::optional<v1::Progress> progress_;
  absl::Status end_;
  std::string token_;
  int64_t num_dropped_ = 0;
};

TEST_F(WatchSessionTest, BeginsWithASnapshotAndGoesOnWithWhatComes) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  auto session = Watch();
  EXPECT_EQ(Drain(session.get()), "snapshot wait");
  ASSERT_TRUE(store_.Append(1, Steps(4, 5)).ok());
  EXPECT_EQ(Drain(session.get()), "steps4-5 wait");
}

TEST_F(WatchSessionTest, FromStart_ReplaysTheHistoryFirst) {
  v1::TelemetryBatch batch = Steps(1, 3);
  AddEvent(4, v1::Event::OVERFLOW, &batch);
  AddStep(5, 4, &batch);
  AddEval(6, 4, &batch);
  ASSERT_TRUE(store_.Append(1, batch).ok());
  auto session = Watch("", /*from_start=*/true);
  EXPECT_EQ(Drain(session.get()), "snapshot steps1-3 event1 steps5-5 eval6 wait");
}

TEST_F(WatchSessionTest, LivePoints_ComeWithTheLatestProgressAndReplayedOnesWithout) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  progress_.emplace().set_step(3);
  auto session = Watch("", /*from_start=*/true);
  ASSERT_EQ(session->Next().message.kind_case(), v1::WatchJobResponse::kSnapshot);
  WatchSession::Step step = session->Next();
  ASSERT_EQ(Show(step.message), "steps1-3");
  EXPECT_FALSE(step.message.has_progress());
  ASSERT_EQ(Drain(session.get()), "wait");
  v1::TelemetryBatch batch = Steps(4, 5);
  AddEval(6, 5, &batch);
  ASSERT_TRUE(store_.Append(1, batch).ok());
  progress_->set_step(5);
  for (const char* shown : {"steps4-5", "eval6"}) {
    step = session->Next();
    ASSERT_EQ(Show(step.message), shown);
    EXPECT_EQ(step.message.progress().step(), 5);
  }
}

TEST_F(WatchSessionTest, ResumesAfterTheTokenWithoutGapOrDuplicate) {
  auto session = Watch();
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  ASSERT_EQ(Drain(session.get()), "steps1-3 wait");
  session.reset();
  v1::TelemetryBatch batch = Steps(4, 5);
  AddEvent(6, v1::Event::OVERFLOW, &batch);
  ASSERT_TRUE(store_.Append(1, batch).ok());
  session = Watch(token_);
  EXPECT_EQ(Drain(session.get()), "snapshot steps4-5 event1 wait");
  session = Watch(token_);
  EXPECT_EQ(Drain(session.get()), "snapshot wait");
}

TEST_F(WatchSessionTest, DoesNotRepeatWhatCameBetweenSubscriptionAndTheStore) {
  auto session = Watch("", /*from_start=*/true);
  ASSERT_EQ(session->Next().message.kind_case(), v1::WatchJobResponse::kSnapshot);
  // The session is already subscribed, so these steps are both in its buffer and in the store.
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  EXPECT_EQ(Drain(session.get()), "steps1-3 wait");
}

TEST_F(WatchSessionTest, LappedWhileCatchingUp_ReadsTheStoreAndDropsNothing) {
  auto session = Watch("", /*from_start=*/true);
  ASSERT_EQ(session->Next().message.kind_case(), v1::WatchJobResponse::kSnapshot);
  ASSERT_TRUE(store_.Append(1, Steps(1, 500)).ok());
  ASSERT_TRUE(store_.Append(1, Steps(501, 1000)).ok());
  EXPECT_EQ(Drain(session.get()), "steps1-1000 wait");
  EXPECT_EQ(num_dropped_, 0);
}

TEST_F(WatchSessionTest, LappedAfterTheLastPage_ReadsTheStoreOnceMore) {
  auto session = Watch("", /*from_start=*/true);
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  ASSERT_EQ(session->Next().message.kind_case(), v1::WatchJobResponse::kSnapshot);
  ASSERT_EQ(Show(session->Next().message), "steps1-3");
  // The session has read the history to its end. Its buffer holds only 100 points, and more points than that follow.
  ASSERT_TRUE(store_.Append(1, Steps(4, 90)).ok());
  ASSERT_TRUE(store_.Append(1, Steps(91, 180)).ok());
  EXPECT_EQ(Drain(session.get()), "steps4-180 wait");
  EXPECT_EQ(num_dropped_, 0);
}

TEST_F(WatchSessionTest, SlowWatcherLosesTheOldestPointsAndIsToldHowMany) {
  auto session = Watch();
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  for (uint64_t first = 1; first <= 211; first += 30) {
    ASSERT_TRUE(store_.Append(1, Steps(first, first + 29)).ok());
  }
  EXPECT_EQ(Drain(session.get()), "steps151-180 steps181-210 steps211-240 wait");
  EXPECT_EQ(num_dropped_, 150);
  EXPECT_EQ(hub_.num_points_dropped(), 150);
}

TEST_F(WatchSessionTest, EventsAreNeverDropped_TheStreamEndsWithATokenInstead) {
  auto session = Watch();
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  v1::TelemetryBatch batch;
  for (uint64_t i = 1; i <= 11; ++i) {
    AddEvent(i, v1::Event::OVERFLOW, &batch);
  }
  ASSERT_TRUE(store_.Append(1, batch).ok());
  EXPECT_EQ(Drain(session.get()), "end");
  EXPECT_EQ(end_.code(), absl::StatusCode::kResourceExhausted);
  session = Watch(MetadataOf(end_)["resume_token"]);
  EXPECT_EQ(Drain(session.get()),
            "snapshot event1 event2 event3 event4 event5 event6 event7 event8 event9 event10 event11 wait");
}

TEST_F(WatchSessionTest, TerminalJob_FinalComesAfterAllTelemetryThatTheOutcomeAnnounced) {
  auto session = Watch();
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  SetJob(v1::Job::SUCCEEDED, /*last_sequence=*/3);
  EXPECT_EQ(Drain(session.get()), "snapshot wait");
  ASSERT_TRUE(store_.Append(1, Steps(1, 2)).ok());
  EXPECT_EQ(Drain(session.get()), "steps1-2 wait");
  ASSERT_TRUE(store_.Append(1, Steps(3, 3)).ok());
  EXPECT_EQ(Drain(session.get()), "steps3-3 final end");
  EXPECT_TRUE(end_.ok());
}

TEST_F(WatchSessionTest, TerminalJob_FinalComesAfterAWhileWhenTelemetryIsLost) {
  auto session = Watch();
  SetJob(v1::Job::FAILED, /*last_sequence=*/3);
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  store_.clock().Advance(absl::Seconds(31));
  EXPECT_EQ(Drain(session.get()), "final end");
}

TEST_F(WatchSessionTest, TerminalJob_WatchedFromStartReplaysAllAndEnds) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  SetJob(v1::Job::SUCCEEDED, 3);
  auto session = Watch("", /*from_start=*/true);
  EXPECT_EQ(Drain(session.get()), "snapshot steps1-3 final end");
}

TEST_F(WatchSessionTest, BeatsWhenNothingHappens) {
  auto session = Watch();
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  store_.clock().Advance(absl::Seconds(14));
  EXPECT_EQ(Drain(session.get()), "wait");
  store_.clock().Advance(absl::Seconds(1));
  EXPECT_EQ(Drain(session.get()), "heartbeat wait");
}

TEST_F(WatchSessionTest, ServerLeaves_StreamEndsResumable) {
  auto session = Watch();
  ASSERT_EQ(Drain(session.get()), "snapshot wait");
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  hub_.Close();
  EXPECT_EQ(Drain(session.get()), "steps1-3 end") << "what is held is still delivered";
  EXPECT_EQ(end_.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(MetadataOf(end_)["resume_token"], token_);
}

TEST_F(WatchSessionTest, RefusesATokenOfAnotherHistory) {
  ASSERT_TRUE(store_.Append(1, Steps(1, 3)).ok());
  auto session = Watch("1.1.4.0");
  EXPECT_EQ(Drain(session.get()), "end");
  EXPECT_EQ(end_.code(), absl::StatusCode::kOutOfRange);
  session = Watch("1.1.3.7");
  EXPECT_EQ(Drain(session.get()), "end");
  EXPECT_EQ(end_.code(), absl::StatusCode::kOutOfRange);
}

TEST_F(WatchSessionTest, AJobThatIsNotFound_IsNotSubscribedTo) {
  found_ = absl::NotFoundError("there is no job j");
  auto session = Watch();
  EXPECT_EQ(Drain(session.get()), "end");
  EXPECT_EQ(end_, found_);
  EXPECT_EQ(hub_.num_jobs(), 0u);
}

TEST(MetricsHub, ForgetsJobsWhoseWatchersHaveLeft) {
  MetricsHub hub;
  int num_stored = 0;
  const std::shared_ptr<Subscription> watcher = hub.Subscribe("watched", [] {});
  const std::shared_ptr<void> reader = hub.SubscribeLog("read", [&num_stored] { ++num_stored; });
  for (int i = 0; i < 10'000; ++i) {
    hub.Subscribe(std::to_string(i), [] {});
    hub.SubscribeLog(std::to_string(i), [] {});
  }
  EXPECT_LT(hub.num_jobs(), 1000u);
  EXPECT_TRUE(hub.IsWatched("watched"));
  hub.PublishLog("read");
  EXPECT_EQ(num_stored, 1);
}

// The history grows while 300 sessions read it. Each session is cut off after a random number of messages, and the next
// one resumes there. Together, the sessions must return the history exactly once.
TEST_F(WatchSessionTest, RandomReconnectsNeitherLoseNorRepeat) {
  const uint64_t seed = SystemRandom().Next();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SeededRandom random(seed);
  auto session = Watch("", /*from_start=*/true);
  std::vector<uint64_t> points;
  std::vector<uint64_t> events;
  uint64_t next = 1;
  uint64_t num_events = 0;
  int num_sessions = 1;
  auto take = [&](int max_messages) {
    for (int i = 0; i < max_messages; ++i) {
      WatchSession::Step step = session->Next();
      if (step.kind != WatchSession::Step::MESSAGE) {
        ASSERT_EQ(step.kind, WatchSession::Step::WAIT);
        return;
      }
      EXPECT_EQ(step.message.dropped_points(), 0);
      points.insert(points.end(), step.message.steps().sequence().begin(), step.message.steps().sequence().end());
      if (step.message.has_event()) {
        events.push_back(step.message.event().sequence());
      }
      token_ = step.message.resume_token();
    }
  };
  std::set<uint64_t> expected_points;
  while (num_sessions < 300) {
    v1::TelemetryBatch batch;
    for (uint64_t n = random.Next() % 6; n > 0; --n, ++next) {
      if (random.Next() % 4 == 0) {
        AddEvent(next, v1::Event::OVERFLOW, &batch);
        ++num_events;
      } else {
        AddStep(next, static_cast<int64_t>(next), &batch);
        expected_points.insert(next);
      }
    }
    ASSERT_TRUE(store_.Append(1, batch).ok());
    take(static_cast<int>(random.Next() % 4));
    if (random.Next() % 2 == 0) {
      session = Watch(token_, token_.empty());
      ++num_sessions;
    }
  }
  take(1 << 20);
  EXPECT_EQ(points, std::vector<uint64_t>(expected_points.begin(), expected_points.end()));
  EXPECT_EQ(events.size(), num_events);
  EXPECT_TRUE(std::is_sorted(events.begin(), events.end()));
}

TEST_F(WatchSessionTest, EveryRecordOfTheJob_HasItsProgress) {
  auto session = Watch();
  EXPECT_EQ(Drain(session.get()), "snapshot wait");
  total_steps_ = 705;
  SetJob(v1::Job::PAUSING);
  WatchSession::Step step = session->Next();
  EXPECT_EQ(step.message.snapshot().progress().total_steps(), 705);
  SetJob(v1::Job::FAILED);
  while (step.kind == WatchSession::Step::MESSAGE && !step.message.has_final()) {
    step = session->Next();
  }
  EXPECT_EQ(step.message.final().progress().total_steps(), 705);
}

}  // namespace
}  // namespace ampd::server
