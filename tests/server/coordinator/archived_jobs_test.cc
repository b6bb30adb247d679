#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

// A job that ended with two checkpoints and has been moved to the history table.
class ArchivedCheckpointTest : public CoordinatorTest {
 protected:
  void SetUp() override {
    worker_retention = absl::ZeroDuration();  // Keeps the worker's record, which lists files to delete.
    CoordinatorTest::SetUp();
    ScriptedWorker worker("w1");
    id = CreateId();
    v1::AttemptReport& ended = worker.Has(StartOn(worker, id), Attempt::ENDED);
    *ended.add_checkpoints() = CheckpointAt(id, 1, 40);
    *ended.add_checkpoints() = CheckpointAt(id, 1, 50);
    *ended.mutable_outcome() = OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
    Exchange(worker);
    clock.Advance(absl::Hours(2));
    coordinator->Tick();
    Pump();
    ASSERT_EQ(Shown(id), "none");
  }
  void AskToDrop(int64_t step) {
    v1::DeleteCheckpointRequest request;
    request.set_id(id);
    request.set_attempt(1);
    request.set_step(step);
    coordinator->commands().DeleteCheckpoint(request,
                                             [this](absl::Status status) { answers.push_back(ReasonOf(status)); });
  }
  void AskToDelete() {
    v1::DeleteJobRequest request;
    request.set_id(id);
    coordinator->commands().DeleteJob(request, [this](absl::Status status) { answers.push_back(ReasonOf(status)); });
  }
  // Returns the steps of the job's checkpoints, as in "40 50"; "none" if the job no longer exists.
  std::string Kept() {
    v1::ListCheckpointsRequest request;
    request.set_id(id);
    const auto kept = coordinator->queries().ListCheckpoints(request);
    return !kept.ok() ? "none"
                      : absl::StrJoin(kept->checkpoints(), " ", [](std::string* out, const v1::Checkpoint& checkpoint) {
                          absl::StrAppend(out, checkpoint.step());
                        });
  }
  std::string Deletions() {
    return ledger->Read([](const ClusterState& state) {
      return absl::StrJoin(
          state.FindWorker("w1")->delete_checkpoints(), " ",
          [](std::string* out, const v1::CheckpointKey& key) { absl::StrAppend(out, "step-", key.step()); });
    });
  }

  std::string id;
  std::vector<std::string> answers;
};

// A client's command for a finished job must have the same answer while the job is in memory and after it was moved to
// the history table.
class OrdersToFinishedJobTest : public ArchivedCheckpointTest {
 protected:
  template <typename Request>
  std::string Answer(void (JobCommands::*order)(const Request&, JobDone), Request request) {
    request.set_id(id);
    absl::StatusOr<JobPtr> result;
    (coordinator->commands().*order)(request, Into(&result));
    Pump();
    return result.ok() ? Job::State_Name((*result)->state()) : ReasonOf(result.status());
  }
  std::string Answers() {
    v1::UpdateJobRequest update;
    update.mutable_update_mask()->add_paths("priority");
    update.set_priority(7);
    v1::CancelJobRequest stale;
    stale.set_etag("0");
    return absl::StrJoin(
        {Answer(&JobCommands::CancelJob, v1::CancelJobRequest()), Answer(&JobCommands::CancelJob, stale),
         Answer(&JobCommands::PauseJob, v1::PauseJobRequest()), Answer(&JobCommands::ResumeJob, v1::ResumeJobRequest()),
         Answer(&JobCommands::UpdateJob, update)},
        " ");
  }
};

TEST_F(OrdersToFinishedJobTest, AreAnsweredAlikeInMemoryAndInTheHistory) {
  constexpr char kExpected[] = "SUCCEEDED STALE_ETAG WRONG_STATE WRONG_STATE WRONG_STATE";
  EXPECT_EQ(Answers(), kExpected) << "archived";
  EXPECT_EQ(Shown(id), "none") << "back in the hot state";
  ScriptedWorker worker("w2");
  id = CreateId();
  *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome() =
      OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  Exchange(worker);
  EXPECT_EQ(Shown(id), "SUCCEEDED SUCCEEDED_NORMALLY");
  EXPECT_EQ(Answers(), kExpected) << "in memory";
  id = "j-mistyped";
  EXPECT_EQ(Answers(), "JOB_NOT_FOUND JOB_NOT_FOUND JOB_NOT_FOUND JOB_NOT_FOUND JOB_NOT_FOUND");
}

TEST_F(OrdersToFinishedJobTest, ARepeatedSubmitIsAnsweredFromTheHistory) {
  ScriptedWorker worker("w2");
  id = (*Create("r1"))->id();
  *worker.Has(StartOn(worker, id), Attempt::ENDED).mutable_outcome() =
      OutcomeOf(Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  Exchange(worker);
  clock.Advance(absl::Hours(2));
  coordinator->Tick();
  Pump();
  ASSERT_EQ(Shown(id), "none");
  const absl::StatusOr<JobPtr> again = Create("r1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->id(), id);
  EXPECT_EQ((*again)->state(), Job::SUCCEEDED);
}

TEST_F(ArchivedCheckpointTest, IsDeletedAndTheJobStaysArchived) {
  AskToDrop(40);
  Pump();
  EXPECT_THAT(answers, ElementsAre(""));
  EXPECT_EQ(Kept(), "50");
  EXPECT_EQ(Deletions(), "step-40");
  EXPECT_EQ(Shown(id), "none") << "back in the hot state";
  EXPECT_EQ((*coordinator->queries().GetJob(id))->state(), Job::SUCCEEDED);
  EXPECT_EQ(coordinator->queries().ListJobs({})->jobs_size(), 1);
  AskToDrop(40);
  Pump();
  EXPECT_EQ(answers.back(), "CHECKPOINT_NOT_FOUND");
}

TEST_F(ArchivedCheckpointTest, BothGoThoughAskedForAtOnce) {
  AskToDrop(40);
  AskToDrop(50);
  Pump();
  EXPECT_THAT(answers, ElementsAre("", ""));
  EXPECT_EQ(Kept(), "");
  EXPECT_EQ(Deletions(), "step-40 step-50");
}

TEST_F(ArchivedCheckpointTest, DoesNotBringBackAJobThatIsDeletedMeanwhile) {
  AskToDrop(40);
  AskToDelete();
  AskToDrop(50);
  Pump();
  EXPECT_THAT(answers, ElementsAre("", "", "JOB_NOT_FOUND"));
  EXPECT_EQ(Kept(), "none");
}

TEST_F(ArchivedCheckpointTest, IsGoneAfterARestartToo) {
  AskToDrop(40);
  Pump();
  const auto bytes = [this] {
    return ledger->Read([](const ClusterState& state) { return state.ToSnapshot(0).workers(0).SerializeAsString(); });
  };
  const std::string before = bytes();
  StartServer();
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(Kept(), "50");
  EXPECT_EQ(Shown(id), "none");
  clock.Advance(absl::Hours(30));
  coordinator->Tick();
  Pump();
  EXPECT_THAT(histories_deleted, ElementsAre(id)) << "its age counts from its end";
  EXPECT_EQ(Kept(), "50") << "a last checkpoint stays";
}

TEST_F(ArchivedCheckpointTest, TheCheckpointsOfAFinishedJobOutliveItsHistory) {
  Pass(absl::Hours(24));
  Pass(absl::Hours(24 * 365));
  EXPECT_THAT(histories_deleted, ElementsAre(id)) << "once";
  EXPECT_THAT(deleted, IsEmpty());
  EXPECT_TRUE((*coordinator->queries().GetJob(id))->history_deleted());
  EXPECT_EQ(Kept(), "40 50");
  EXPECT_EQ(Deletions(), "");
  AskToDrop(40);
  AskToDrop(50);
  Pump();
  Pass(absl::Minutes(1));
  EXPECT_THAT(deleted, ElementsAre(id)) << "nothing is left to keep the record for";
}

TEST_F(ArchivedCheckpointTest, GoByTheirAgeWhereTheOperatorSaysSo) {
  retention = {absl::Hours(24 * 10), absl::Hours(24 * 3)};
  StartServer();
  Pass(absl::Hours(24 * 2));
  EXPECT_EQ(Kept(), "40 50");
  Pass(absl::Hours(24 * 2));
  EXPECT_EQ(Kept(), "");
  EXPECT_EQ(Deletions(), "step-0") << "the job's whole folder";
  EXPECT_THAT(histories_deleted, IsEmpty());
  Pass(absl::Hours(24 * 7));
  EXPECT_THAT(deleted, ElementsAre(id));
}

TEST_F(ArchivedCheckpointTest, OfManyJobsThatStay_NoneKeepsOthersFromTheirEnd) {
  Pass(absl::Hours(25));
  ASSERT_THAT(histories_deleted, ElementsAre(id));
  std::vector<std::string> cancelled;
  for (int i = 0; i < 250; ++i) {
    cancelled.push_back(CreateId());
    v1::CancelJobRequest cancel;
    cancel.set_id(cancelled.back());
    coordinator->commands().CancelJob(cancel, [](absl::StatusOr<JobPtr>) {});
  }
  Pump();
  Pass(absl::Hours(2));
  for (int minute = 0; minute < 10; ++minute) {
    Pass(absl::Hours(24));
  }
  EXPECT_THAT(deleted, testing::UnorderedElementsAreArray(cancelled));
  EXPECT_EQ(Kept(), "40 50");
}

TEST_F(ArchivedCheckpointTest, ALeapOfTheWallClockDeletesNothing) {
  clock.SetNow(clock.Now() + absl::Hours(24 * 60));
  Pass(absl::Minutes(2));
  Pass(absl::Minutes(2));
  EXPECT_THAT(leaps, ElementsAre("1440h"));
  EXPECT_FALSE(coordinator->expiry().ClockIsSteady());
  EXPECT_THAT(histories_deleted, IsEmpty());
  clock.SetNow(clock.Now() - absl::Hours(24 * 60));
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_THAT(histories_deleted, IsEmpty()) << "its time has not come";
  clock.SetNow(clock.Now() + absl::Hours(24 * 60));
  for (int minute = 0; minute < 70; ++minute) {
    Pass(absl::Minutes(1));
  }
  EXPECT_THAT(histories_deleted, ElementsAre(id)) << "an hour of steady time is believed";
}

TEST_F(ArchivedCheckpointTest, AServerThatStartsWithAWrongClockDeletesNothingAtOnce) {
  clock.SetNow(clock.Now() + absl::Hours(24 * 60));
  StartServer();
  Pass(absl::Minutes(2));
  EXPECT_EQ(leaps.size(), 1u);
  EXPECT_THAT(histories_deleted, IsEmpty());
}

TEST_F(ArchivedCheckpointTest, ZeroIsNever) {
  retention = {absl::ZeroDuration(), absl::ZeroDuration()};
  StartServer();
  for (int year = 0; year < 20; ++year) {
    Pass(absl::Hours(24 * 365));
  }
  EXPECT_THAT(histories_deleted, IsEmpty());
  EXPECT_THAT(deleted, IsEmpty());
  EXPECT_EQ(Kept(), "40 50");
}

TEST_F(ArchivedCheckpointTest, StaysWhileAnotherJobIsToBeginWithIt) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.mutable_spec()->mutable_model()->mutable_initial_checkpoint()->set_job_id(id);
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(request, Into(&created));
  Pump();
  ASSERT_TRUE(created.ok()) << created.status();
  AskToDrop(50);
  AskToDrop(40);
  Pump();
  EXPECT_THAT(answers, ElementsAre("CHECKPOINT_IN_USE", ""));
  EXPECT_EQ(Kept(), "50");
}

}  // namespace
}  // namespace ampd::server
