// Tests the trace of a job: which call sets it, and how long the job keeps it.
#include <gtest/gtest.h>

#include <string>

#include "server/state/cluster_state.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using v1::Attempt;
using v1::Job;
using v1::Outcome;

constexpr char kFirst[] = "00-11111111111111111111111111111111-1111111111111111-01";
constexpr char kSecond[] = "00-22222222222222222222222222222222-2222222222222222-00";

class JobTraceTest : public testing::Test {
 protected:
  Applied Apply(const internal::Update& update) {
    const absl::StatusOr<Applied> applied = state_.Apply(update);
    EXPECT_TRUE(applied.ok()) << applied.status() << "\n" << update.ShortDebugString();
    return applied.value_or(Applied());
  }
  void Create(const std::string& traceparent) {
    internal::Update create = make_.Create("j1", "r1");
    create.mutable_create_job()->set_traceparent(traceparent);
    create.mutable_create_job()->set_parent_span_id(traceparent.empty() ? "" : "aaaaaaaaaaaaaaaa");
    Apply(create);
  }
  void Run(int attempt) {
    Apply(make_.Assign("j1", attempt, "w1"));
    Apply(make_.Advance("j1", attempt, Attempt::RUNNING));
  }
  const internal::JobRecord& Record() { return *(record_ = state_.FindJob("j1")); }

  void SetUp() override { Apply(make_.Register("w1")); }

  UpdateMaker make_;
  ClusterState state_;
  JobRecordPtr record_;
};

TEST_F(JobTraceTest, IsThatOfTheCallThatCreatedTheJob_AlsoAfterRetriesAndPauses) {
  Create(kFirst);
  EXPECT_EQ(Record().job().traceparent(), kFirst);
  EXPECT_EQ(Record().parent_span_id(), "aaaaaaaaaaaaaaaa");
  Run(1);
  Apply(make_.End("j1", 1, Outcome::FAILED, v1::Reason::TRAINER_CRASHED));
  Run(2);
  Apply(make_.Desire("j1", Job::PAUSE));
  Apply(make_.End("j1", 2, Outcome::LEFT, v1::Reason::USER_PAUSED));
  Apply(make_.Desire("j1", Job::RUN));
  Run(3);
  EXPECT_EQ(Record().job().traceparent(), kFirst);
  EXPECT_EQ(Record().parent_span_id(), "aaaaaaaaaaaaaaaa");
}

TEST_F(JobTraceTest, StaysIfTheRequestIsRepeatedInAnotherTrace) {
  Create(kFirst);
  Create(kSecond);
  EXPECT_EQ(Record().job().traceparent(), kFirst);
}

TEST_F(JobTraceTest, IsEmptyInJournalsOfOlderServers) {
  Create("");
  Run(1);
  EXPECT_EQ(Record().job().traceparent(), "");
  EXPECT_EQ(Record().parent_span_id(), "");
}

TEST_F(JobTraceTest, IsToldOfDeletedJobs) {
  Create(kFirst);
  Apply(make_.Desire("j1", Job::CANCEL));
  internal::Update trim = make_.New();
  trim.mutable_trim_job()->set_job("j1");
  trim.mutable_trim_job()->set_history(true);
  EXPECT_EQ(Apply(trim).deleted_histories.at(0).traceparent, kFirst);
  internal::Update remove = make_.New();
  remove.mutable_delete_job()->set_job("j1");
  EXPECT_EQ(Apply(remove).deleted_jobs.at(0).traceparent, kFirst);
}

TEST_F(JobTraceTest, IsInSnapshots) {
  Create(kFirst);
  Run(1);
  const ClusterState copy = ClusterState::FromSnapshot(state_.ToSnapshot(7));
  EXPECT_EQ(copy.FindJob("j1")->job().traceparent(), kFirst);
  EXPECT_EQ(copy.FindJob("j1")->parent_span_id(), "aaaaaaaaaaaaaaaa");
}

}  // namespace
}  // namespace ampd::server
