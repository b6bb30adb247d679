// Tests how the trace of a job passes from the call that creates it to the directive for its worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/coordinator/coordinator_fixtures.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using v1::Attempt;
using v1::Outcome;

constexpr char kFirst[] = "00-11111111111111111111111111111111-1111111111111111-01";
constexpr char kSecond[] = "00-22222222222222222222222222222222-2222222222222222-00";

class JobTraceTest : public CoordinatorTest {
 protected:
  std::string CreateIn(const std::string& traceparent) {
    v1::CreateJobRequest request;
    *request.mutable_spec() = SmallSpec();
    absl::StatusOr<JobPtr> created;
    coordinator->commands().CreateJob(request, Into(&created), {.trace = *ParseTraceparent(traceparent)});
    Pump();
    EXPECT_TRUE(created.ok()) << created.status();
    return (*created)->id();
  }
  std::string TraceOf(const std::string& job) { return (*coordinator->queries().GetJob(job))->traceparent(); }
};

TEST_F(JobTraceTest, DirectivesCarryIt_AlsoAfterARetryAndARestart) {
  const std::string id = CreateIn(kFirst);
  ScriptedWorker worker("w1");
  const v1::AttemptKey first = StartOn(worker, id);
  EXPECT_EQ(coordinator->sessions().CurrentDirective("w1", "a1")->attempts(0).traceparent(), kFirst);
  *worker.Has(first, Attempt::ENDED).mutable_outcome() = OutcomeOf(Outcome::FAILED, v1::Reason::TRAINER_CRASHED);
  Exchange(worker);
  StartServer();
  EXPECT_EQ(TraceOf(id), kFirst);
  worker.Has(first, Attempt::ENDED);
  v1::WorkerDirective directive = Exchange(worker);
  for (int i = 0; i < 3 && (directive.attempts().empty() || directive.attempts(0).key().attempt() != 2); ++i) {
    Pass(absl::Seconds(20));
    directive = Exchange(worker);
  }
  ASSERT_EQ(directive.attempts_size(), 1);
  EXPECT_EQ(directive.attempts(0).key().attempt(), 2);
  EXPECT_EQ(directive.attempts(0).traceparent(), kFirst);
}

TEST_F(JobTraceTest, ACloneHasThatOfItsOwnCall) {
  const std::string id = CreateIn(kFirst);
  v1::CloneJobRequest request;
  request.set_id(id);
  absl::StatusOr<JobPtr> clone;
  coordinator->commands().CloneJob(request, Into(&clone), {.trace = *ParseTraceparent(kSecond)});
  Pump();
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ((*clone)->traceparent(), kSecond);
  EXPECT_EQ(TraceOf(id), kFirst);
}

TEST_F(JobTraceTest, ACallThatOnlyChecksAJob_GivesNone) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = SmallSpec();
  request.set_validate_only(true);
  absl::StatusOr<JobPtr> checked;
  coordinator->commands().CreateJob(request, Into(&checked), {.trace = *ParseTraceparent(kFirst)});
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ((*checked)->traceparent(), "");
}

}  // namespace
}  // namespace ampd::server
