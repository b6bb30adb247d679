#include "server/coordinator/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ampd::server
