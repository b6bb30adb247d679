#include "server/coordinator/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using v1::Attempt;
using v1::Job;

class SchedulerTest : public CoordinatorTest {};

TEST_F(SchedulerTest, SubmittedJob_IsPlacedAtOnceAndADirectiveIsDue) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  due.clear();
  const std::string id = CreateId();
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
  EXPECT_THAT(due, testing::Contains("w1"));
  const v1::WorkerDirective directive = *coordinator->sessions().CurrentDirective("w1", "a1");
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().job_id(), id);
  EXPECT_EQ(directive.attempts(0).precision(), "fp32");
  EXPECT_EQ(directive.attempts(0).desired(), Job::RUN);
  EXPECT_GE(directive.attempts(0).key().token().size(), 20u);
}

TEST_F(SchedulerTest, LocalCheckpointOfAnAgentWithoutIdentity_IsAnyonesOfTheName) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  v1::Checkpoint local = CheckpointAt(id, 1, 40);
  local.set_local(true);
  *worker.Has(key, Attempt::RUNNING).add_checkpoints() = local;
  Exchange(worker);
  Pass(absl::Seconds(16));
  ScriptedWorker newer("w1", "red");
  EXPECT_EQ(Exchange(newer).attempts(0).start_from().step(), 40);
}

TEST_F(SchedulerTest, StoppingWorker_IsGivenNothingNew) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  worker.report.set_stopping(true);
  Exchange(worker);
  const std::string id = CreateId();
  Pass(absl::Seconds(1));
  EXPECT_EQ(Shown(id), "QUEUED");
  EXPECT_EQ(ViewOf("w1").state(), v1::Worker::DRAINING);
  EXPECT_EQ(ViewOf("w1").message(), "its agent is stopping");
  v1::ExplainJobRequest explain;
  explain.set_id(id);
  EXPECT_THAT(coordinator->queries().ExplainJob(explain)->message(), testing::HasSubstr("worker w1 is stopping"));
  ScriptedWorker again("w1");
  again.report.set_incarnation("a2");
  Exchange(again);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
}

// The answer to a client must come before the scheduler compares the client's job with any device.
TEST_F(SchedulerTest, WithManyJobsAndDevices_AnAnswerWaitsForNoPlacement) {
  constexpr int kJobs = 10'000;
  constexpr int kDevices = 200;
  ScriptedWorker worker("w1");
  for (int i = 1; i < kDevices; ++i) {
    v1::Device& device = *worker.report.add_devices();
    device = worker.report.devices(0);
    device.set_id(absl::StrCat("cpu", i));
  }
  Exchange(worker);
  for (int i = 0; i < kJobs; ++i) {
    internal::Update update;
    update.mutable_create_job()->set_id(absl::StrCat("j", i));
    *update.mutable_create_job()->mutable_spec() = SmallSpec();
    update.mutable_create_job()->mutable_spec()->mutable_resources()->set_kind(v1::ResourceSpec::GPU);
    ledger->Commit(update, [](const absl::StatusOr<Applied>& applied) { ASSERT_TRUE(applied.ok()); });
  }
  Pump();
  const Scheduler& scheduler = coordinator->scheduler();
  const int64_t num_examined = scheduler.num_examined();
  num_searches = 0;
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  absl::StatusOr<JobPtr> created = absl::UnknownError("never answered");
  coordinator->commands().CreateJob(request, Into(&created));
  while (ledger->CommitGroup()) {
  }
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(num_searches, 0) << "the answer waited for a search";
  EXPECT_EQ(scheduler.num_examined(), num_examined);
  Pump();
  EXPECT_EQ(Shown((*created)->id()), "STARTING@w1#1");
  EXPECT_LE(scheduler.num_examined() - num_examined, kDevices) << "one job changed";
  Pass(absl::Seconds(1));
  EXPECT_LE(scheduler.num_examined() - num_examined, kDevices) << "nothing changed";
}

TEST_F(SchedulerTest, ADecisionThatIsOutdatedWhenItIsApplied_IsRefusedAndMadeAgain) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(request, Into(&created));
  ASSERT_TRUE(ledger->CommitGroup());
  v1::DrainWorkerRequest drain;
  drain.set_name("w1");
  coordinator->sessions().DrainWorker(drain, [](const absl::StatusOr<v1::Worker>&) {});
  ASSERT_EQ(coordinator->scheduler().RunOnce(), 1u) << "decided before the drain is applied";
  Pump();
  EXPECT_EQ(Shown((*created)->id()), "QUEUED");
  ScriptedWorker other("w2");
  Exchange(other);
  EXPECT_EQ(Shown((*created)->id()), "STARTING@w2#1");
}

TEST_F(SchedulerTest, AJobThatChangesWhileItIsAssigned_IsAssignedAsItIsThen) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(request, Into(&created));
  ASSERT_TRUE(ledger->CommitGroup());
  v1::UpdateJobRequest update;
  update.set_id((*created)->id());
  update.mutable_update_mask()->add_paths("priority");
  update.set_priority(7);
  absl::StatusOr<JobPtr> updated;
  coordinator->commands().UpdateJob(update, Into(&updated));
  ASSERT_EQ(coordinator->scheduler().RunOnce(), 1u);
  while (ledger->CommitGroup()) {
  }
  EXPECT_EQ(Shown((*created)->id()), "QUEUED") << "the assignment was decided on an outdated record";
  Pump();
  EXPECT_EQ(Shown((*created)->id()), "STARTING@w1#1");
}

TEST_F(SchedulerTest, WhenMoreChangesThanItKeeps_EverythingIsReadAgain) {
  ScriptedWorker worker("w1");
  Exchange(worker);
  for (size_t i = 0; i <= Scheduler::kMaxMarks; ++i) {
    coordinator->scheduler().OnSessionChanged(absl::StrCat("pod-", i));
  }
  const std::string id = CreateId();
  EXPECT_EQ(Shown(id), "STARTING@w1#1");
}

// A coordinator test that runs the threads of the scheduler and the ledger.
class SchedulerThreadTest : public CoordinatorTest {
 protected:
  void TearDown() override {
    coordinator->scheduler().Stop();
    ledger.reset();  // Its committer calls the coordinator, so it must end first.
  }
  void OnJobMoved(const internal::JobRecord& record, const v1::Event&) override {
    if (record.job().state() == Job::STARTING) {
      started.Notify();
    }
  }

  absl::Notification started;
};

TEST_F(SchedulerThreadTest, AJobIsPlacedWithoutATick) {
  ledger->Start();
  coordinator->scheduler().Start();
  ScriptedWorker worker("w1");
  worker.report.set_sequence(1);
  ASSERT_TRUE(coordinator->sessions().HandleReport(worker.report).ok());
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  coordinator->commands().CreateJob(request, [](const absl::StatusOr<JobPtr>&) {});
  started.WaitForNotification();
}

}  // namespace
}  // namespace ampd::server
