#include "server/coordinator/expiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

class ExpiryTest : public CoordinatorTest {};

TEST_F(ExpiryTest, SilentWorker_LosesItsJobsOnlyAfterLeaseAndMargin) {
  ScriptedWorker worker("w1");
  ScriptedWorker other("w2");
  const std::string id = CreateId();
  StartOn(worker, id);
  Pass(absl::Seconds(15));
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  Exchange(other);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(Shown(id), "STARTING@w2#2");
}

TEST_F(ExpiryTest, LossOnItsWayToDisk_StopsRenewals) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  StartOn(worker, id);
  clock.Advance(absl::Seconds(16));
  coordinator->Tick();
  worker.report.set_sequence(worker.report.sequence() + 1);
  EXPECT_EQ(coordinator->sessions().HandleReport(worker.report)->renewal_of_boottime_nanos(), 0);
  Pump();
  Exchange(worker);
  EXPECT_NE(Shown(id), "RUNNING@w1#1");
}

TEST_F(ExpiryTest, Deadline_EndsTheJob) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_deadline()->set_seconds(100);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().CreateJob(request, Into(&result));
  Pump();
  const std::string id = (*result)->id();
  ScriptedWorker worker("w1");
  StartOn(worker, id);
  for (int i = 0; i < 11; ++i) {
    Exchange(worker);
    Pass(absl::Seconds(9));
  }
  Exchange(worker);
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  Pass(absl::Seconds(2));
  EXPECT_EQ(Shown(id), "CANCELLING@w1#1 DEADLINE");
}

TEST_F(ExpiryTest, LocalCheckpointOutOfReach_StartsOverAfterTheWait) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::Checkpoint local = CheckpointAt(id, 1, 40);
  local.set_local(true);
  *worker.Has(key, Attempt::RUNNING).add_checkpoints() = local;
  Exchange(worker);
  Pass(absl::Seconds(16));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40");
  Pass(absl::Seconds(1));  // The wait for the lost worker begins.
  Pass(absl::Minutes(9));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40");
  Pass(absl::Minutes(2));
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST");
  EXPECT_EQ(started_over, "worker w1, which holds the checkpoint at step 40, did not come back");
}

// The job's only checkpoint is on the disk of the agent "red". The server loses that agent, and the agent "blue"
// takes over the worker name w1.
class TakenNameTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    CoordinatorTest::SetUp();
    id = CreateId();
    const v1::AttemptKey key = StartOn(red, id);
    v1::Checkpoint local = CheckpointAt(id, 1, 40);
    local.set_local(true);
    *red.Has(key, Attempt::RUNNING).add_checkpoints() = local;
    Exchange(red);
    red.report.clear_attempts();
    Pass(absl::Seconds(16));
    Exchange(blue);
  }

  ScriptedWorker red{"w1", "red"};
  ScriptedWorker blue{"w1", "blue"};
  std::string id;
};

TEST_F(TakenNameTest, ALocalCheckpointIsNotGivenToTheNewAgentAndGoesOnUnderTheOldOne) {
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40");
  v1::ExplainJobRequest why;
  why.set_id(id);
  const auto explained = coordinator->queries().ExplainJob(why);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_EQ(explained->reason(), v1::PendingReason::WAITING_FOR_CHECKPOINT_WORKER);
  EXPECT_THAT(explained->message(),
              testing::HasSubstr("checkpoint at step 40 is on worker w1, which was another agent then"));
  StartServer();
  Exchange(blue);
  EXPECT_EQ(Shown(id), "QUEUED WORKER_LOST ckpt=40") << "a restart of the server forgot whose it is";
  Pass(absl::Seconds(16));
  const v1::WorkerDirective directive = Exchange(red);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).start_from().step(), 40);
}

TEST_F(TakenNameTest, TheJobStartsOverUnderTheNewAgentAfterTheWait) {
  for (int minute = 0; minute < 10; ++minute) {
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(Exchange(blue).attempts_size(), 0) << "in minute " << minute;
      Pass(absl::Seconds(10));
    }
  }
  for (int i = 0; i < 2; ++i) {
    Exchange(blue);
    Pass(absl::Seconds(9));
  }
  const v1::WorkerDirective directive = Exchange(blue);
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_FALSE(directive.attempts(0).has_start_from());
  EXPECT_EQ(Shown(id), "STARTING@w1#2");
  EXPECT_EQ(started_over,
            "worker w1, which holds the checkpoint at step 40, did not come back: the name is another agent's now");
}

TEST_F(ExpiryTest, EndedJobs_LeaveTheHotStateAndAreDeletedByAge) {
  const std::string id = CreateId();
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  Pass(absl::Hours(2));
  EXPECT_EQ(ledger->Read([](const ClusterState& state) { return state.jobs().size(); }), 0u);
  EXPECT_EQ((*coordinator->queries().GetJob(id))->state(), Job::CANCELLED);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 1);
  Pass(absl::Hours(24));
  EXPECT_THAT(deleted, ElementsAre(id));
  EXPECT_EQ(coordinator->queries().GetJob(id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ExpiryTest, AJobThatIsNeverArchivedStaysInTheHotStateUntilItsEnd) {
  archive_after = absl::ZeroDuration();
  StartServer();
  const std::string id = CreateId();
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  coordinator->commands().CancelJob(cancel, [](absl::StatusOr<JobPtr>) {});
  Pump();
  Pass(absl::Hours(23));
  EXPECT_EQ(Shown(id), "CANCELLED USER_CANCELLED");
  Pass(absl::Hours(2));
  EXPECT_THAT(deleted, ElementsAre(id));
}

TEST_F(ExpiryTest, LostWorker_CanBeRemovedAndOthersCannot) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  EXPECT_EQ(RemoveWorker("w1"), "WORKER_NOT_LOST");
  EXPECT_EQ(RemoveWorker("w2"), "WORKER_NOT_FOUND");
  Pass(absl::Seconds(16));
  EXPECT_EQ(RemoveWorker("w1"), "OK");
  EXPECT_EQ(ViewOf("w1").name(), "");
  EXPECT_EQ(coordinator->sessions().ListWorkers({})->workers_size(), 0);
  EXPECT_FALSE(coordinator->sessions().CurrentDirective("w1", "a1").ok());
  StartServer();
  EXPECT_EQ(ViewOf("w1").name(), "") << "it is back after a restart";
  Exchange(worker);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY) << "one that comes back is a new worker";
}

TEST_F(ExpiryTest, LostWorker_IsForgottenAfterItsRetention) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(16));
  Pass(absl::Seconds(1));
  Pass(absl::Hours(47));
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::LOST);
  Pass(absl::Hours(1));
  EXPECT_EQ(ViewOf("w1").name(), "");
}

TEST_F(ExpiryTest, LostWorker_IsNotForgottenBecauseTheWallClockLeapt) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  Pass(absl::Seconds(16));
  Pass(absl::Seconds(1));
  clock.SetNow(clock.Now() + absl::Hours(24 * 365));
  Pass(absl::Seconds(2));
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::LOST);
}

// Sets the wall clock back by an hour or ahead by a year. Neither may change leases, deadlines or waits.
class LeapingClock : public CoordinatorTest, public testing::WithParamInterface<int> {
 protected:
  absl::Duration Leap() const { return absl::Hours(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(BackAndAhead, LeapingClock, testing::Values(-1, 24 * 365),
                         [](const auto& info) { return info.param < 0 ? "Back" : "Ahead"; });

TEST_P(LeapingClock, SilentWorkerIsLostInTimeAndAReportingOneStays) {
  ScriptedWorker silent("w1");
  Exchange(silent);
  ScriptedWorker living("w2");
  Exchange(living);
  clock.SetNow(clock.Now() + Leap());
  Pass(absl::Seconds(8));
  Exchange(living);
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::READY) << "a leap is no silence";
  Pass(absl::Seconds(8));
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::LOST);
  EXPECT_EQ(ViewOf("w2").state(), v1::Worker::READY);
}

TEST_P(LeapingClock, DeadlineEndsTheJobInTime) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_deadline()->set_seconds(100);
  absl::StatusOr<JobPtr> result;
  coordinator->commands().CreateJob(request, Into(&result));
  Pump();
  const std::string id = (*result)->id();
  ScriptedWorker worker("w1");
  StartOn(worker, id);
  Pass(absl::Seconds(2));
  clock.SetNow(clock.Now() + Leap());
  for (int i = 0; i < 10; ++i) {
    Exchange(worker);
    Pass(absl::Seconds(9));
  }
  Exchange(worker);
  EXPECT_EQ(Shown(id), "RUNNING@w1#1");
  Pass(absl::Seconds(9));
  EXPECT_EQ(Shown(id), "CANCELLING@w1#1 DEADLINE");
}

TEST_P(LeapingClock, RetryComesInTime) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  v1::AttemptKey key = StartOn(worker, id);
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::DEVICE_ERROR);
  key = Exchange(worker).attempts(0).key();  // The first retry begins at once.
  *worker.Has(key, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::DEVICE_ERROR);
  Exchange(worker);
  worker.report.clear_attempts();
  EXPECT_EQ(Shown(id), "QUEUED DEVICE_ERROR");
  clock.SetNow(clock.Now() + Leap());
  for (int i = 0; i < 2 && Shown(id) == "QUEUED DEVICE_ERROR"; ++i) {
    Exchange(worker);
    Pass(absl::Seconds(4));
  }
  EXPECT_EQ(Shown(id), "STARTING@w1#3");
}

}  // namespace
}  // namespace ampd::server
