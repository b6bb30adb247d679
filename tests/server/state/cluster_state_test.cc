#include "server/state/cluster_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "google/protobuf/util/time_util.h"
#include "server/state/job_edit.h"
#include "server/state/job_rules.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using google::protobuf::util::TimeUtil;
using v1::Attempt;
using v1::Job;
using v1::Outcome;

class ClusterStateTest : public testing::Test {
 protected:
  void Apply(const internal::Update& update) {
    const auto applied = state.Apply(update);
    ASSERT_TRUE(applied.ok()) << applied.status() << "\n" << update.ShortDebugString();
  }
  std::string ReasonOfApply(const internal::Update& update) {
    const std::string before = state.ToSnapshot(0).SerializeAsString();
    const auto applied = state.Apply(update);
    EXPECT_FALSE(applied.ok());
    EXPECT_EQ(state.ToSnapshot(0).SerializeAsString(), before) << "a refusal left something behind";
    return ReasonOf(applied.status());
  }
  void StartRunning(const std::string& job, int attempt, const std::string& worker) {
    Apply(make.Assign(job, attempt, worker));
    Apply(make.Advance(job, attempt, Attempt::RUNNING));
  }
  void ShareRoot(const std::string& worker) {
    internal::Update shared = make.Register(worker);
    shared.mutable_register_worker()->mutable_worker()->set_checkpoint_root_shared(true);
    Apply(shared);
  }
  std::string Shown() { return Show(state, "j1"); }
  // Returns the paths that the worker is ordered to delete, joined by spaces.
  std::string Deletions(const std::string& worker) {
    const auto path = [](std::string* out, const v1::CheckpointKey& key) { out->append(key.path()); };
    return absl::StrJoin(state.FindWorker(worker)->delete_checkpoints(), " ", path);
  }

  void SetUp() override {
    Apply(make.Register("w1"));
    Apply(make.Register("w2"));
    Apply(make.Create("j1"));
  }

  UpdateMaker make;
  ClusterState state;
};

TEST(JobRules, MovesAreExactlyThoseOfTheTable) {
  const std::set<std::pair<Job::State, Job::State>> legal = {
      {Job::QUEUED, Job::STARTING},     {Job::QUEUED, Job::PAUSED},     {Job::QUEUED, Job::CANCELLED},
      {Job::QUEUED, Job::FAILED},       {Job::STARTING, Job::RUNNING},  {Job::STARTING, Job::PAUSING},
      {Job::STARTING, Job::CANCELLING}, {Job::STARTING, Job::QUEUED},   {Job::STARTING, Job::SUCCEEDED},
      {Job::STARTING, Job::FAILED},     {Job::RUNNING, Job::PAUSING},   {Job::RUNNING, Job::CANCELLING},
      {Job::RUNNING, Job::QUEUED},      {Job::RUNNING, Job::SUCCEEDED}, {Job::RUNNING, Job::FAILED},
      {Job::PAUSING, Job::PAUSED},      {Job::PAUSING, Job::QUEUED},    {Job::PAUSING, Job::CANCELLING},
      {Job::PAUSING, Job::SUCCEEDED},   {Job::PAUSING, Job::FAILED},    {Job::PAUSED, Job::QUEUED},
      {Job::PAUSED, Job::CANCELLED},    {Job::PAUSED, Job::FAILED},     {Job::CANCELLING, Job::CANCELLED},
      {Job::CANCELLING, Job::FAILED},
  };
  for (int from = Job::State_MIN; from <= Job::State_MAX; ++from) {
    for (int to = Job::State_MIN; to <= Job::State_MAX; ++to) {
      const auto move = std::pair(static_cast<Job::State>(from), static_cast<Job::State>(to));
      EXPECT_EQ(IsLegalMove(move.first, move.second), legal.contains(move))
          << Job::State_Name(move.first) << " to " << Job::State_Name(move.second);
    }
  }
}

TEST(JobRules, RetriesWaitLongerEachTimeUpToAMinute) {
  EXPECT_EQ(RetryDelay(0), absl::ZeroDuration());
  EXPECT_EQ(RetryDelay(1), absl::ZeroDuration());
  EXPECT_EQ(RetryDelay(2), absl::Seconds(5));
  EXPECT_EQ(RetryDelay(3), absl::Seconds(10));
  EXPECT_EQ(RetryDelay(100), absl::Minutes(1));
}

TEST_F(ClusterStateTest, ARequestIdBelongsToItsTenant) {
  const auto create = [this](const std::string& id, const std::string& tenant) {
    internal::Update update = make.Create(id, "r1");
    update.mutable_create_job()->set_tenant(tenant);
    return update;
  };
  Apply(create("t1", "vision"));
  Apply(create("t2", "nlp"));
  Apply(create("t3", ""));
  EXPECT_EQ(state.FindJob("t2")->job().tenant(), "nlp");
  EXPECT_EQ(state.FindJob("t3")->job().tenant(), "default");
  EXPECT_EQ(state.FindRequest("vision", "r1")->job(), "t1");
  EXPECT_EQ(state.FindRequest("default", "r1")->job(), "t3");
  EXPECT_EQ(state.FindRequest("audio", "r1"), nullptr);
  EXPECT_EQ(state.FindRequest("vision", ""), nullptr);
  const auto repeated = state.Apply(create("t4", "nlp"));
  EXPECT_EQ(repeated->job, "t2");
  state = ClusterState::FromSnapshot(state.ToSnapshot(1));
  EXPECT_EQ(state.FindRequest("nlp", "r1")->job(), "t2");
}

TEST_F(ClusterStateTest, JobsAndRequestsOfOlderServersBelongToTheDefaultTenant) {
  Apply(make.Create("t1", "r1"));
  internal::Snapshot older = state.ToSnapshot(1);
  for (internal::JobRecord& record : *older.mutable_jobs()) {
    record.mutable_job()->clear_tenant();
  }
  for (internal::AcceptedRequest& request : *older.mutable_requests()) {
    request.clear_tenant();
  }
  state = ClusterState::FromSnapshot(older);
  EXPECT_EQ(state.FindJob("t1")->job().tenant(), "default");
  EXPECT_EQ(state.FindRequest("default", "r1")->job(), "t1");
}

TEST_F(ClusterStateTest, ATenantsUseIsThatOfItsUnfinishedJobs) {
  const auto create = [this](const std::string& id, const std::string& tenant, int64_t max_jobs) {
    internal::Update update = make.Create(id);
    update.mutable_create_job()->set_tenant(tenant);
    update.mutable_create_job()->set_max_jobs(max_jobs);
    return update;
  };
  Apply(create("t1", "vision", 2));
  Apply(create("t2", "vision", 2));
  EXPECT_EQ(state.UseOf("vision").num_jobs, 2);
  EXPECT_EQ(state.UseOf("vision").spec_bytes,
            static_cast<int64_t>(2 * state.FindJob("t1")->job().spec().ByteSizeLong()));
  EXPECT_EQ(ReasonOfApply(create("t3", "vision", 2)), "TENANT_LIMIT");
  Apply(create("t3", "nlp", 2));
  state = ClusterState::FromSnapshot(state.ToSnapshot(1));
  EXPECT_EQ(ReasonOfApply(create("t4", "vision", 2)), "TENANT_LIMIT");
  Apply(make.Desire("t1", Job::CANCEL));
  EXPECT_EQ(state.UseOf("vision").num_jobs, 1);
  internal::Update large = create("t4", "vision", 0);
  large.mutable_create_job()->set_max_spec_bytes(state.UseOf("vision").spec_bytes + 10);
  EXPECT_EQ(ReasonOfApply(large), "TENANT_LIMIT");
  Apply(create("t4", "vision", 2));
  for (const char* const id : {"t2", "t4", "t3"}) {
    Apply(make.Desire(id, Job::CANCEL));
  }
  EXPECT_EQ(state.UseOf("vision").num_jobs, 0);
  EXPECT_EQ(state.UseOf("vision").spec_bytes, 0);
}

TEST_F(ClusterStateTest, JobThatFinishes_Succeeds) {
  EXPECT_EQ(Shown(), "j1:QUEUED");
  Apply(make.Assign("j1", 1, "w1"));
  EXPECT_EQ(Shown(), "j1:STARTING@w1#1");
  Apply(make.Advance("j1", 1, Attempt::RUNNING));
  EXPECT_EQ(Shown(), "j1:RUNNING@w1#1");
  Apply(make.Save("j1", 1, 5));
  Apply(make.End("j1", 1, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY));
  EXPECT_EQ(Shown(), "j1:SUCCEEDED SUCCEEDED_NORMALLY ckpt=5");
  EXPECT_TRUE(state.FindJob("j1")->job().has_end_time());
}

// A worker's report has only the newest state of each attempt. So if an attempt runs all its steps between two reports,
// no report says that it is RUNNING.
TEST_F(ClusterStateTest, AnAttemptThatIsReportedOnlyAfterItsEnd_StartedBeforeItsSteps) {
  struct Case {
    int64_t last_step;
    double steps_per_second;
    int64_t micros_before_end;  // -1: the attempt has no start time
  };
  constexpr int64_t kRun = 10'000'000;
  for (const Case& one : std::vector<Case>{{20, 4, 5'000'000}, {20, 0, 0}, {20, 1e-9, kRun}, {0, 0, -1}}) {
    SCOPED_TRACE(absl::StrCat(one.last_step, " steps, ", one.steps_per_second, " per second"));
    ClusterState fresh;
    UpdateMaker maker;
    for (const auto& update : {maker.Register("w1"), maker.Create("j1"), maker.Assign("j1", 1, "w1")}) {
      ASSERT_TRUE(fresh.Apply(update).ok());
    }
    internal::Update end = maker.End("j1", 1, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
    const auto micros = [](const google::protobuf::Timestamp& time) { return TimeUtil::TimestampToMicroseconds(time); };
    end.set_time_unix_micros(micros(fresh.FindJob("j1")->job().attempts(0).assign_time()) + kRun);
    end.mutable_end_attempt()->mutable_outcome()->set_last_step(one.last_step);
    end.mutable_end_attempt()->mutable_outcome()->mutable_final_metrics()->set_steps_per_second(one.steps_per_second);
    ASSERT_TRUE(fresh.Apply(end).ok());
    const Job& job = fresh.FindJob("j1")->job();
    ASSERT_EQ(job.state(), Job::SUCCEEDED);
    ASSERT_EQ(job.has_start_time(), one.micros_before_end >= 0);
    EXPECT_EQ(job.attempts(0).has_start_time(), job.has_start_time());
    if (job.has_start_time()) {
      EXPECT_EQ(micros(job.end_time()) - micros(job.start_time()), one.micros_before_end);
      EXPECT_EQ(micros(job.attempts(0).start_time()), micros(job.start_time()));
    }
  }
}

TEST_F(ClusterStateTest, EventsAreNumberedWithoutGaps) {
  std::vector<uint64_t> sequences;
  ClusterState fresh;
  UpdateMaker maker;
  for (const auto& update : {maker.Register("w1"), maker.Create("j1"), maker.Assign("j1", 1, "w1"),
                             maker.Advance("j1", 1, Attempt::RUNNING), maker.Save("j1", 1, 3), maker.Lose("w1")}) {
    const auto applied = fresh.Apply(update);
    for (const JobEvent& event : applied->events) {
      sequences.push_back(event.event.sequence());
    }
  }
  ASSERT_EQ(sequences.size(), 7u);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(sequences[i], i + 1);
  }
}

TEST_F(ClusterStateTest, PausedWhileRunning_RestsInPausedAfterTheAttemptLeft) {
  StartRunning("j1", 1, "w1");
  Apply(make.Desire("j1", Job::PAUSE));
  EXPECT_EQ(Shown(), "j1:PAUSING@w1#1 USER_PAUSED");
  Apply(make.Save("j1", 1, 7));
  Apply(make.End("j1", 1, Outcome::LEFT, v1::Reason::USER_PAUSED));
  EXPECT_EQ(Shown(), "j1:PAUSED USER_PAUSED ckpt=7");
  Apply(make.Desire("j1", Job::RUN));
  EXPECT_EQ(Shown(), "j1:QUEUED ckpt=7");
}

TEST_F(ClusterStateTest, ResumedWhilePausing_IsQueuedWhenTheAttemptHasLeft) {
  StartRunning("j1", 1, "w1");
  Apply(make.Desire("j1", Job::PAUSE));
  Apply(make.Desire("j1", Job::RUN));
  EXPECT_EQ(Shown(), "j1:PAUSING@w1#1 USER_PAUSED");
  Apply(make.End("j1", 1, Outcome::LEFT, v1::Reason::USER_PAUSED));
  EXPECT_EQ(Show(state, "j1").substr(0, 9), "j1:QUEUED");
}

TEST_F(ClusterStateTest, DrainedWorker_JobLeavesAndIsQueuedAgain) {
  StartRunning("j1", 1, "w1");
  Apply(make.Drain("w1"));
  EXPECT_EQ(Shown(), "j1:PAUSING@w1#1 WORKER_DRAINED");
  Apply(make.Save("j1", 1, 4));
  Apply(make.End("j1", 1, Outcome::LEFT, v1::Reason::WORKER_DRAINED));
  EXPECT_EQ(Shown(), "j1:QUEUED WORKER_DRAINED ckpt=4");
  EXPECT_EQ(state.FindJob("j1")->job().num_retries_used(), 0);
  EXPECT_EQ(ReasonOfApply(make.Assign("j1", 2, "w1")), "WORKER_UNAVAILABLE");
}

TEST_F(ClusterStateTest, PausedWhileDraining_RestsInPaused) {
  StartRunning("j1", 1, "w1");
  Apply(make.Drain("w1"));
  Apply(make.Desire("j1", Job::PAUSE));
  Apply(make.End("j1", 1, Outcome::LEFT, v1::Reason::WORKER_DRAINED));
  EXPECT_EQ(Shown(), "j1:PAUSED USER_PAUSED");
}

TEST_F(ClusterStateTest, Cancel_WinsWhateverTheOutcome) {
  for (const Outcome::Kind kind : {Outcome::FINISHED, Outcome::LEFT, Outcome::FAILED, Outcome::GONE}) {
    ClusterState fresh;
    for (const auto& update : {make.Register("w1"), make.Create("j1"), make.Assign("j1", 1, "w1"),
                               make.Desire("j1", Job::CANCEL), make.End("j1", 1, kind, v1::Reason::TRAINER_CRASHED)}) {
      ASSERT_TRUE(fresh.Apply(update).ok());
    }
    EXPECT_EQ(Show(fresh, "j1"), "j1:CANCELLED USER_CANCELLED");
  }
}

TEST_F(ClusterStateTest, CancelledJob_CanNeitherBePausedNorResumed) {
  StartRunning("j1", 1, "w1");
  Apply(make.Desire("j1", Job::CANCEL));
  EXPECT_EQ(ReasonOfApply(make.Desire("j1", Job::RUN)), "WRONG_STATE");
  EXPECT_EQ(ReasonOfApply(make.Desire("j1", Job::PAUSE)), "WRONG_STATE");
  EXPECT_FALSE(state.Apply(make.Desire("j1", Job::CANCEL))->changed);
}

TEST_F(ClusterStateTest, TerminalState_NeverChanges) {
  Apply(make.Desire("j1", Job::CANCEL));
  EXPECT_EQ(ReasonOfApply(make.Assign("j1", 1, "w1")), "WRONG_STATE");
  EXPECT_EQ(ReasonOfApply(make.Desire("j1", Job::RUN)), "WRONG_STATE");
  EXPECT_FALSE(state.Apply(make.Desire("j1", Job::CANCEL))->changed);
  EXPECT_EQ(Shown(), "j1:CANCELLED USER_CANCELLED");
}

TEST_F(ClusterStateTest, CrashedTrainer_UsesUpRetriesThenFailsWithItsReason) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    StartRunning("j1", attempt, "w1");
    Apply(make.Save("j1", attempt, int64_t{10} * attempt));
    Apply(make.End("j1", attempt, Outcome::FAILED, v1::Reason::TRAINER_CRASHED));
    EXPECT_EQ(Shown().substr(0, 9), attempt < 3 ? "j1:QUEUED" : "j1:FAILED");
  }
  EXPECT_EQ(Shown(), "j1:FAILED TRAINER_CRASHED ckpt=30");
}

TEST_F(ClusterStateTest, LostWorkers_DoNotUseUpRetriesWhileThereIsProgress) {
  for (int attempt = 1; attempt <= 8; ++attempt) {
    Apply(make.Register("w1"));
    StartRunning("j1", attempt, "w1");
    Apply(make.Save("j1", attempt, int64_t{10} * attempt));
    Apply(make.Lose("w1"));
    EXPECT_EQ(Shown().substr(0, 21), "j1:QUEUED WORKER_LOST");
  }
  EXPECT_EQ(state.FindJob("j1")->job().num_retries_used(), 0);
}

TEST_F(ClusterStateTest, ThreeAttemptsInARowWithoutCheckpoint_EndTheJob) {
  for (int attempt = 1; attempt <= 3; ++attempt) {
    Apply(make.Register("w1"));
    StartRunning("j1", attempt, "w1");
    Apply(make.Lose("w1"));
  }
  EXPECT_EQ(Shown(), "j1:FAILED NO_PROGRESS");
}

TEST_F(ClusterStateTest, AJobThatPredicts_NeedsNoCheckpointToGoOnAfterLostWorkers) {
  internal::Update create = make.Create("j2");
  create.mutable_create_job()->mutable_spec()->mutable_predict();
  Apply(make.Register("w1"));
  Apply(create);
  for (int attempt = 1; attempt <= 5; ++attempt) {
    Apply(make.Register("w1"));
    StartRunning("j2", attempt, "w1");
    Apply(make.Lose("w1"));
    EXPECT_EQ(state.FindJob("j2")->job().state(), v1::Job::QUEUED);
  }
  EXPECT_EQ(state.FindJob("j2")->job().num_retries_used(), 0);
}

TEST_F(ClusterStateTest, UserError_IsNotRetried) {
  StartRunning("j1", 1, "w1");
  Apply(make.End("j1", 1, Outcome::FAILED, v1::Reason::DATA_ERROR));
  EXPECT_EQ(Shown(), "j1:FAILED DATA_ERROR");
}

TEST_F(ClusterStateTest, WhatAWorkerTellsAgain_ChangesNothing) {
  Apply(make.Assign("j1", 1, "w1"));
  internal::Update running = make.Advance("j1", 1, Attempt::RUNNING);
  running.mutable_advance_attempt()->set_precision("bf16");
  running.mutable_advance_attempt()->set_total_steps(9);
  Apply(running);
  EXPECT_FALSE(state.Apply(running)->changed);
  EXPECT_FALSE(state.Apply(make.Advance("j1", 1, Attempt::RUNNING))->changed) << "an agent that knows no more yet";
  EXPECT_FALSE(state.Apply(make.Advance("j1", 1, Attempt::STARTING))->changed);
  running.mutable_advance_attempt()->set_precision("fp32");
  EXPECT_TRUE(state.Apply(running)->changed);
}

TEST_F(ClusterStateTest, StaleOwner_IsFenced) {
  StartRunning("j1", 1, "w1");
  Apply(make.Lose("w1"));
  StartRunning("j1", 2, "w2");
  EXPECT_EQ(ReasonOfApply(make.End("j1", 1, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY)), "FENCED");
  EXPECT_EQ(ReasonOfApply(make.Save("j1", 1, 9)), "FENCED");
  EXPECT_EQ(ReasonOfApply(make.Advance("j1", 1, Attempt::RUNNING)), "FENCED");
  internal::Update forged = make.End("j1", 2, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
  forged.mutable_end_attempt()->mutable_key()->set_token("guess");
  EXPECT_EQ(ReasonOfApply(forged), "FENCED");
  EXPECT_EQ(Shown(), "j1:RUNNING@w2#2");
}

// The scheduler decides an assignment on published records, so the job may have changed by the time the committer
// applies the assignment.
TEST_F(ClusterStateTest, AssignmentDecidedBeforeTheJobStartedOver_IsRefusedAsStale) {
  StartRunning("j1", 1, "w1");
  Apply(make.Save("j1", 1, 8));
  Apply(make.End("j1", 1, Outcome::FAILED, v1::Reason::TRAINER_CRASHED));
  internal::Update assign = make.Assign("j1", 2, "w2");
  *assign.mutable_assign_attempt()->mutable_start_from() = state.FindJob("j1")->job().checkpoints(0);
  assign.mutable_assign_attempt()->set_job_version(state.FindJob("j1")->version());
  internal::Update start_over = make.New();
  start_over.mutable_start_over()->set_job("j1");
  Apply(start_over);
  EXPECT_EQ(ReasonOfApply(assign), "STALE_DECISION");
  assign.mutable_assign_attempt()->set_job_version(0);
  Apply(assign);  // In an older server's journal, an assignment may lack a version.
}

TEST_F(ClusterStateTest, AssignmentWithALocalCheckpointThatAnotherAgentCannotReach_IsRefusedAsStale) {
  internal::Update red = make.Register("w1");
  red.mutable_register_worker()->mutable_agent()->set_id("red");
  Apply(red);
  StartRunning("j1", 1, "w1");
  internal::Update save = make.Save("j1", 1, 8);
  save.mutable_record_checkpoint()->mutable_checkpoint()->set_local(true);
  Apply(save);
  Apply(make.End("j1", 1, Outcome::FAILED, v1::Reason::TRAINER_CRASHED));
  internal::Update assign = make.Assign("j1", 2, "w1");
  *assign.mutable_assign_attempt()->mutable_start_from() = state.FindJob("j1")->job().checkpoints(0);
  assign.mutable_assign_attempt()->set_job_version(state.FindJob("j1")->version());
  internal::Update blue = red;
  blue.mutable_register_worker()->mutable_agent()->set_id("blue");
  Apply(blue);
  EXPECT_EQ(ReasonOfApply(assign), "STALE_DECISION");
  Apply(red);
  Apply(assign);
}

TEST_F(ClusterStateTest, DeviceHoldsOneAttempt) {
  Apply(make.Create("j2"));
  Apply(make.Assign("j1", 1, "w1"));
  EXPECT_EQ(ReasonOfApply(make.Assign("j2", 1, "w1")), "DEVICE_BUSY");
  Apply(make.End("j1", 1, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY));
  Apply(make.Assign("j2", 1, "w1"));
}

TEST_F(ClusterStateTest, RepeatedRequest_GivesTheSameJob) {
  ASSERT_TRUE(state.Apply(make.Create("j2", "r1", "a")).ok());
  const auto repeat = state.Apply(make.Create("j3", "r1", "a"));
  ASSERT_TRUE(repeat.ok());
  EXPECT_EQ(repeat->job, "j2");
  EXPECT_FALSE(repeat->changed);
  EXPECT_EQ(ReasonOfApply(make.Create("j4", "r1", "b")), "REQUEST_ID_REUSED");
  EXPECT_EQ(Show(state, "j3"), "j3:none");
}

// Callers see the submit order of their own jobs. If it were a count, they would learn how many jobs others submit in
// between.
TEST_F(ClusterStateTest, TheSubmitOrderRisesWithTheTime_AndIsNoCount) {
  const auto order_of = [&](const std::string& job) { return state.FindJob(job)->job().submit_order(); };
  internal::Update update = make.Create("j2");
  const int64_t time = update.time_unix_micros();
  Apply(update);
  EXPECT_EQ(order_of("j2"), time);
  update.mutable_create_job()->set_id("j3");
  Apply(update);
  EXPECT_EQ(order_of("j3"), time + 1) << "in the same microsecond";
  update.mutable_create_job()->set_id("j4");
  update.set_time_unix_micros(time - 1'000'000);
  Apply(update);
  EXPECT_EQ(order_of("j4"), time + 2) << "after the clock went back";
  update.mutable_create_job()->set_id("j5");
  update.set_time_unix_micros(time + 1'000'000);
  Apply(update);
  EXPECT_EQ(order_of("j5"), time + 1'000'000);
}

TEST_F(ClusterStateTest, OldCheckpoints_AreDeletedBeyondKeep) {
  StartRunning("j1", 1, "w1");
  for (int64_t step : {1, 2, 3}) {
    Apply(make.Save("j1", 1, step));
  }
  EXPECT_EQ(state.FindJob("j1")->job().checkpoints_size(), 2);
  const auto worker = state.FindWorker("w1");
  ASSERT_EQ(worker->delete_checkpoints_size(), 1);
  EXPECT_EQ(worker->delete_checkpoints(0).path(), "j1/1/step-1");
  EXPECT_FALSE(state.Apply(make.Save("j1", 1, 1))->changed) << "a repeated report recorded it again";
}

TEST_F(ClusterStateTest, TheBestCheckpoint_StaysBesideTheNewest) {
  internal::Update create = make.Create("j2");
  create.mutable_create_job()->mutable_spec()->mutable_checkpoint()->set_keep_best(true);
  Apply(create);
  StartRunning("j2", 1, "w1");
  const auto save = [&](int64_t step, std::optional<double> eval_loss) {
    internal::Update update = make.Save("j2", 1, step);
    if (eval_loss.has_value()) {
      update.mutable_record_checkpoint()->mutable_checkpoint()->set_eval_loss(*eval_loss);
    }
    Apply(update);
  };
  const auto kept = [&] {
    std::vector<int64_t> steps;
    for (const v1::Checkpoint& checkpoint : state.FindJob("j2")->job().checkpoints()) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  };
  save(1, std::nan(""));
  save(2, 0.5);
  save(3, 0.5);
  save(4, std::nullopt);
  save(5, 0.7);
  EXPECT_EQ(kept(), (std::vector<int64_t>{2, 4, 5})) << "the first of the two best, and the newest two";
  save(6, 0.1);
  EXPECT_EQ(kept(), (std::vector<int64_t>{5, 6})) << "the best is one of the newest";
  save(7, 0.2);
  save(8, 0.3);
  EXPECT_EQ(kept(), (std::vector<int64_t>{6, 7, 8}));
  const auto worker = state.FindWorker("w1");
  EXPECT_EQ(worker->delete_checkpoints_size(), 5) << "the files of what was dropped";
}

// A trainer saves its last checkpoint before its last evaluation, whose loss is reported with the outcome.
TEST_F(ClusterStateTest, TheLastCheckpoint_HasTheLossOfTheFinalEvaluation) {
  for (const double final_loss : {0.1, 0.4}) {
    const std::string job = final_loss < 0.3 ? "best" : "worse";
    internal::Update create = make.Create(job);
    create.mutable_create_job()->mutable_spec()->mutable_checkpoint()->set_keep_best(true);
    create.mutable_create_job()->mutable_spec()->mutable_checkpoint()->set_keep(1);
    Apply(create);
    StartRunning(job, 1, "w1");
    internal::Update save = make.Save(job, 1, 4);
    save.mutable_record_checkpoint()->mutable_checkpoint()->set_eval_loss(0.3);
    Apply(save);
    Apply(make.Save(job, 1, 6));
    EXPECT_EQ(state.FindJob(job)->job().checkpoints_size(), 2) << "which one is the best is not known yet";
    internal::Update end = make.End(job, 1, v1::Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY);
    end.mutable_end_attempt()->mutable_outcome()->set_last_step(6);
    end.mutable_end_attempt()->mutable_outcome()->mutable_final_metrics()->set_eval_loss(final_loss);
    Apply(end);
    const auto& kept = state.FindJob(job)->job().checkpoints();
    ASSERT_EQ(kept.size(), final_loss < 0.3 ? 1 : 2);
    EXPECT_EQ(kept[0].step(), final_loss < 0.3 ? 6 : 4);
    EXPECT_EQ(kept[kept.size() - 1].eval_loss(), final_loss);
  }
}

TEST_F(ClusterStateTest, AnAttemptThatFails_TellsNothingOfItsLastCheckpoint) {
  Apply(make.Create("j2"));
  StartRunning("j2", 1, "w1");
  Apply(make.Save("j2", 1, 6));
  internal::Update end = make.End("j2", 1, v1::Outcome::FAILED, v1::Reason::OUT_OF_MEMORY);
  end.mutable_end_attempt()->mutable_outcome()->set_last_step(6);
  // This evaluation loss may be that of an earlier step, so it must not be recorded with the checkpoint.
  end.mutable_end_attempt()->mutable_outcome()->mutable_final_metrics()->set_eval_loss(0.5);
  Apply(end);
  ASSERT_EQ(state.FindJob("j2")->job().checkpoints_size(), 1);
  EXPECT_FALSE(state.FindJob("j2")->job().checkpoints(0).has_eval_loss());
}

TEST_F(ClusterStateTest, CheckpointOutsideTheRoot_IsRefused) {
  StartRunning("j1", 1, "w1");
  for (const char* path : {"", "/etc/passwd", "j1/../../x"}) {
    internal::Update update = make.Save("j1", 1, 5);
    update.mutable_record_checkpoint()->mutable_checkpoint()->set_path(path);
    EXPECT_EQ(ReasonOfApply(update), "INVALID_FIELDS") << path;
  }
}

// In an older journal, a checkpoint may have a path that lies in another job's folder.
TEST_F(ClusterStateTest, CheckpointBelowAnotherJobsFolder_IsNeverDeletedThere) {
  StartRunning("j1", 1, "w1");
  for (const char* path : {"j2/1/step-1", "j2", "j1", "j1/", "j1/1", "j1/./2", "j10/1/step-1", "j1/2/step-1"}) {
    ClusterState before = state;
    internal::Update save = make.Save("j1", 1, 1);
    save.mutable_record_checkpoint()->mutable_checkpoint()->set_path(path);
    Apply(save);
    Apply(make.Save("j1", 1, 2));
    Apply(make.Save("j1", 1, 3));
    EXPECT_EQ(state.FindJob("j1")->job().checkpoints_size(), 2);
    EXPECT_EQ(Deletions("w1"), "") << path;
    state = std::move(before);
  }
}

TEST_F(ClusterStateTest, PassedDeadline_FailsTheJobAfterTheAttemptEnded) {
  StartRunning("j1", 1, "w1");
  internal::Update update = make.New();
  update.mutable_expire_deadline()->set_job("j1");
  Apply(update);
  EXPECT_EQ(Shown(), "j1:CANCELLING@w1#1 DEADLINE");
  Apply(make.End("j1", 1, Outcome::LEFT, v1::Reason::USER_CANCELLED));
  EXPECT_EQ(Shown(), "j1:FAILED DEADLINE");
}

TEST_F(ClusterStateTest, AnOrderThatNamesNoJob_IsNotFound) {
  for (const char* id : {"", "j9"}) {
    EXPECT_EQ(ReasonOfApply(make.Desire(id, Job::CANCEL)), "JOB_NOT_FOUND") << id;
  }
}

TEST_F(ClusterStateTest, StaleEtag_IsAborted) {
  internal::Update update = make.Desire("j1", Job::PAUSE);
  update.mutable_set_desired()->set_etag("99");
  EXPECT_EQ(ReasonOfApply(update), "STALE_ETAG");
  update.mutable_set_desired()->set_etag(state.FindJob("j1")->job().etag());
  Apply(update);
}

TEST_F(ClusterStateTest, DeletedJob_TakesItsRequestAndFilesWithIt) {
  Apply(make.Create("j2", "r1", "a"));
  StartRunning("j2", 1, "w1");
  Apply(make.Save("j2", 1, 5));
  internal::Update remove = make.New();
  remove.mutable_delete_job()->set_job("j2");
  EXPECT_EQ(ReasonOfApply(remove), "WRONG_STATE");
  Apply(make.End("j2", 1, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY));
  Apply(remove);
  EXPECT_EQ(Show(state, "j2"), "j2:none");
  EXPECT_EQ(Deletions("w1"), "j2");
  EXPECT_EQ(state.Apply(make.Create("j3", "r1", "other"))->job, "j3");
}

TEST_F(ClusterStateTest, DeletedJob_LeavesNoFolderWhereItRan) {
  StartRunning("j1", 1, "w1");
  for (int64_t step : {1, 2, 3}) {
    Apply(make.Save("j1", 1, step));
  }
  EXPECT_EQ(Deletions("w1"), "j1/1/step-1");
  Apply(make.Lose("w1"));
  StartRunning("j1", 2, "w2");
  Apply(make.End("j1", 2, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY));
  internal::Update remove = make.New();
  remove.mutable_delete_job()->set_job("j1");
  Apply(remove);
  EXPECT_EQ(Deletions("w1"), "j1") << "and what waited below it goes with it";
  EXPECT_EQ(Deletions("w2"), "j1") << "it recorded nothing, and may have left something";
}

TEST_F(ClusterStateTest, DeletedJobOnASharedRoot_IsDeletedByAWorkerThatIsThere) {
  ShareRoot("w1");
  ShareRoot("w3");
  StartRunning("j1", 1, "w1");
  Apply(make.End("j1", 1, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY));
  Apply(make.Lose("w1"));
  internal::Update remove = make.New();
  remove.mutable_delete_job()->set_job("j1");
  Apply(remove);
  EXPECT_EQ(Deletions("w1"), "j1");
  EXPECT_EQ(Deletions("w2"), "") << "its root is its own";
  EXPECT_EQ(Deletions("w3"), "j1");
}

TEST_F(ClusterStateTest, OldCheckpointOfALostWorkerOnASharedRoot_IsDeletedByAWorkerThatIsThere) {
  ShareRoot("w1");
  ShareRoot("w3");
  StartRunning("j1", 1, "w1");
  for (int64_t step : {1, 2, 3}) {
    Apply(make.Save("j1", 1, step));
  }
  EXPECT_EQ(Deletions("w1"), "j1/1/step-1");
  Apply(make.Lose("w1"));
  EXPECT_EQ(Deletions("w1"), "");
  EXPECT_EQ(Deletions("w3"), "j1/1/step-1") << "what waited is handed over";
  StartRunning("j1", 2, "w2");
  Apply(make.Save("j1", 2, 4));
  EXPECT_EQ(Deletions("w1"), "");
  EXPECT_EQ(Deletions("w2"), "") << "its root is its own";
  EXPECT_EQ(Deletions("w3"), "j1/1/step-1 j1/1/step-2");
}

TEST_F(ClusterStateTest, OldCheckpointOfALostWorker_WaitsForItWhereNobodyElseHasItsRoot) {
  ShareRoot("w1");
  ShareRoot("w3");
  Apply(make.Lose("w3"));
  Apply(make.Create("j2"));
  StartRunning("j1", 1, "w1");
  StartRunning("j2", 1, "w2");
  for (int64_t step : {1, 2, 3}) {
    Apply(make.Save("j1", 1, step));
    Apply(make.Save("j2", 1, step));
  }
  Apply(make.Lose("w1"));
  Apply(make.Lose("w2"));
  EXPECT_EQ(Deletions("w1"), "j1/1/step-1") << "the other that shares it is lost, too";
  Apply(make.Register("w4"));
  ShareRoot("w5");
  for (const std::string job : {"j1", "j2"}) {
    StartRunning(job, 2, "w4");
    Apply(make.Save(job, 2, 4));
    Apply(make.End(job, 2, Outcome::FINISHED, v1::Reason::SUCCEEDED_NORMALLY));
  }
  EXPECT_EQ(Deletions("w2"), "j2/1/step-1 j2/1/step-2") << "its root is its own";
  EXPECT_EQ(Deletions("w1"), "j1/1/step-1");
  EXPECT_EQ(Deletions("w3"), "");
  EXPECT_EQ(Deletions("w4"), "");
  EXPECT_EQ(Deletions("w5"), "j1/1/step-2");
}

TEST_F(ClusterStateTest, AttemptThatIsForgotten_TakesItsFolderAlong) {
  StartRunning("j1", 1, "w1");
  Apply(make.End("j1", 1, Outcome::LEFT, v1::Reason::PREEMPTED));
  const auto run = [&](int attempt) {
    StartRunning("j1", attempt, "w2");
    Apply(make.Save("j1", attempt, attempt));
    Apply(make.End("j1", attempt, Outcome::LEFT, v1::Reason::PREEMPTED));
  };
  for (int attempt = 2; attempt <= kAttemptsKept; ++attempt) {
    run(attempt);
  }
  EXPECT_EQ(Deletions("w1"), "");
  run(kAttemptsKept + 1);
  EXPECT_EQ(Deletions("w1"), "j1/1");
  run(kAttemptsKept + 2);
  EXPECT_FALSE(absl::StrContains(absl::StrCat(Deletions("w2"), " "), "j1/2 ")) << "goes with the job, as w2 is known";
}

// Returns the assignment with this preset and a dynamic loss scale that starts at `initial`.
internal::Update WithLossScale(internal::Update assign, const std::string& precision, double initial) {
  assign.mutable_assign_attempt()->set_precision(precision);
  assign.mutable_assign_attempt()->mutable_loss_scale()->mutable_dynamic()->set_initial(initial);
  return assign;
}

TEST_F(ClusterStateTest, LossScaleRule_StaysThatOfTheFirstAttemptInThePrecision) {
  const auto initial = [&] { return state.FindJob("j1")->job().attempts().rbegin()->loss_scale().dynamic().initial(); };
  Apply(WithLossScale(make.Assign("j1", 1, "w1"), "fp16", 1024));
  EXPECT_EQ(initial(), 1024);
  Apply(make.Lose("w1"));
  Apply(WithLossScale(make.Assign("j1", 2, "w2"), "apex-o2", 64));
  EXPECT_EQ(initial(), 64) << "another precision has its own rule";
  Apply(make.Lose("w2"));
  Apply(make.Register("w1"));
  Apply(WithLossScale(make.Assign("j1", 3, "w1"), "fp16", 8));
  EXPECT_EQ(initial(), 1024) << "a server with other presets changed the rule of a job that runs";
}

TEST_F(ClusterStateTest, LossScaleRule_IsKeptByTheJobThatResumesAnother) {
  internal::Update create = make.Create("j2");
  *create.mutable_create_job()->mutable_clone_start() = CheckpointAt("j1", 1, 40);
  internal::PinnedLossScale& pinned = *create.mutable_create_job()->add_loss_scales();
  pinned.set_precision("fp16");
  pinned.mutable_loss_scale()->mutable_dynamic()->set_initial(1024);
  Apply(create);
  Apply(WithLossScale(make.Assign("j2", 1, "w1"), "fp16", 8));
  EXPECT_EQ(state.FindJob("j2")->job().attempts(0).loss_scale().dynamic().initial(), 1024);
}

TEST_F(ClusterStateTest, Snapshot_HoldsTheWholeState) {
  StartRunning("j1", 1, "w1");
  Apply(make.Create("j2", "r1", "a"));
  Apply(make.Save("j1", 1, 5));
  const internal::Snapshot snapshot = state.ToSnapshot(7);
  ClusterState copy = ClusterState::FromSnapshot(snapshot);
  EXPECT_EQ(copy.ToSnapshot(7).SerializeAsString(), snapshot.SerializeAsString());
  const internal::Update next = make.Lose("w1");
  ASSERT_TRUE(copy.Apply(next).ok());
  Apply(next);
  EXPECT_EQ(copy.ToSnapshot(8).SerializeAsString(), state.ToSnapshot(8).SerializeAsString());
  EXPECT_EQ(copy.queue().size(), 2u);
}

// Sets a field that this version does not know, in the way a newer version would.
template <typename Message>
void AddUnknown(const std::string& text, Message* message) {
  message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(10'000, text);
}

TEST_F(ClusterStateTest, Snapshot_KeepsWhatANewerServerAddedToIt) {
  StartRunning("j1", 1, "w1");
  Apply(make.Create("j2", "r1", "a"));
  internal::Snapshot snapshot = state.ToSnapshot(7);
  AddUnknown("snapshot", &snapshot);
  AddUnknown("request", snapshot.mutable_requests(0));
  AddUnknown("record", snapshot.mutable_jobs(0));
  AddUnknown("job", snapshot.mutable_jobs(0)->mutable_job());
  AddUnknown("attempt", snapshot.mutable_jobs(0)->mutable_job()->mutable_attempts(0));
  AddUnknown("worker", snapshot.mutable_workers(0));
  ClusterState copy = ClusterState::FromSnapshot(snapshot);
  ASSERT_TRUE(copy.Apply(make.Save("j1", 1, 5)).ok());
  ASSERT_TRUE(copy.Apply(make.Drain("w1")).ok());
  const std::string bytes = copy.ToSnapshot(9).SerializeAsString();
  for (const char* text : {"snapshot", "request", "record", "job", "attempt", "worker"}) {
    internal::Snapshot expected;
    AddUnknown(text, &expected);
    EXPECT_THAT(bytes, testing::HasSubstr(expected.SerializeAsString())) << text;
  }
}

}  // namespace
}  // namespace ampd::server
