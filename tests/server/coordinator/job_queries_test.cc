#include "server/coordinator/job_queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/server/coordinator/coordinator_fixtures.h"

namespace ampd::server {
namespace {

using v1::Job;

class JobQueriesTest : public CoordinatorTest {};

TEST_F(JobQueriesTest, AJobSaysWhenWhatItLeavesIsDeleted) {
  const std::string id = CreateId();
  Job job = **coordinator->queries().GetJob(id);
  coordinator->queries().AddRetention(&job);
  EXPECT_EQ(job.retention().ShortDebugString(), "history { seconds: 86400 }");
  job.set_state(Job::SUCCEEDED);
  job.mutable_end_time()->set_seconds(1'000'000);
  coordinator->queries().AddRetention(&job);
  EXPECT_EQ(job.retention().history_delete_time().seconds(), 1'086'400);
  EXPECT_FALSE(job.retention().has_checkpoints_delete_time());
}

TEST_F(JobQueriesTest, ListJobs_EndsAPageBeforeItIsTooLargeAndCountsAllJobs) {
  constexpr int kJobs = 40;
  for (int i = 0; i < kJobs; ++i) {
    internal::Update update;
    update.mutable_create_job()->set_id(absl::StrCat("j", i));
    *update.mutable_create_job()->mutable_spec() = LargeSpec(250 << 10);
    ledger->Commit(update, [](const absl::StatusOr<Applied>& applied) { ASSERT_TRUE(applied.ok()); });
  }
  Pump();
  const auto cancel = [this](const std::string& job) {
    v1::CancelJobRequest request;
    request.set_id(job);
    coordinator->commands().CancelJob(request, [](absl::StatusOr<JobPtr>) {});
  };
  for (int i = 0; i < kJobs / 2; ++i) {
    cancel(absl::StrCat("j", i));
  }
  Pump();
  Pass(absl::Hours(2));
  ASSERT_EQ(ledger->Read([](const ClusterState& state) { return state.jobs().size(); }), kJobs / 2);
  v1::ListJobsRequest request;
  request.set_page_size(500);
  std::vector<std::string> seen;
  int num_pages = 0;
  do {
    const auto page = coordinator->queries().ListJobs(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->ByteSizeLong(), 4u << 20);
    EXPECT_GT(page->jobs_size(), 0);
    EXPECT_EQ(page->total_size(), num_pages == 0 ? kJobs : 0);
    for (const Job& job : page->jobs()) {
      seen.push_back(job.id());
    }
    request.set_page_token(page->next_page_token());
    ++num_pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), kJobs);
  EXPECT_EQ(seen.front(), "j39");
  EXPECT_EQ(seen.back(), "j0");
  EXPECT_GE(num_pages, 3);
  v1::ListJobsRequest filtered;
  filtered.set_filter("state=CANCELLED");
  filtered.set_page_size(3);
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->total_size(), kJobs / 2);
  filtered.set_filter("id=j7");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->total_size(), 1);
}

TEST_F(JobQueriesTest, ListWorkersAndExplainJobStayBelowWhatClientsTake) {
  constexpr int kWorkers = 80;
  for (int i = 0; i < kWorkers; ++i) {
    ScriptedWorker worker(absl::StrCat("w", 100 + i));
    for (int device = 0; device < 100; ++device) {
      v1::Device& added = *worker.report.add_devices();
      added.set_id(absl::StrCat("gpu", device, "-", std::string(240, 'd')));
      added.set_name(std::string(250, 'n'));
      added.set_kind(v1::Device::GPU);
    }
    Exchange(worker);
  }
  v1::ListWorkersRequest request;
  request.set_page_size(500);
  std::set<std::string> seen;
  do {
    const auto page = coordinator->sessions().ListWorkers(request);
    EXPECT_LE(page->ByteSizeLong(), 4u << 20);
    EXPECT_EQ(page->total_size(), request.page_token().empty() ? kWorkers : 0);
    for (const v1::Worker& worker : page->workers()) {
      seen.insert(worker.name());
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen.size(), kWorkers);
  v1::CreateJobRequest create;
  *create.mutable_spec() = SmallSpec();
  create.mutable_spec()->mutable_resources()->set_worker("none");
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(create, Into(&created));
  Pump();
  ASSERT_TRUE(created.ok()) << created.status();
  v1::ExplainJobRequest explain;
  explain.set_id((*created)->id());
  const auto explained = coordinator->queries().ExplainJob(explain);
  EXPECT_LE(explained->ByteSizeLong(), 4u << 20);
  EXPECT_GT(explained->devices_size(), 100);
  EXPECT_EQ(explained->num_devices(), kWorkers * 101);
}

TEST_F(JobQueriesTest, ListJobs_FiltersAndPagesOverBothTables) {
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) {
    ids.push_back((*Create("", i % 2 == 0 ? "even" : "odd"))->id());
  }
  absl::StatusOr<JobPtr> result;
  v1::CancelJobRequest cancel;
  cancel.set_id(ids[2]);
  coordinator->commands().CancelJob(cancel, Into(&result));
  Pump();
  Pass(absl::Hours(2));
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> seen;
  do {
    const auto page = coordinator->queries().ListJobs(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const Job& job : page->jobs()) {
      seen.push_back(job.id());
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(seen, testing::ElementsAreArray(ids.rbegin(), ids.rend()));
  v1::ListJobsRequest filtered;
  filtered.set_filter("name=even AND state=QUEUED");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->jobs_size(), 3);
  filtered.set_filter("colour=red");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered).status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* open : {"state=QUEUED AND", "AND state=QUEUED", "name=even AND  AND state=QUEUED", "AND", " "}) {
    filtered.set_filter(open);
    EXPECT_THAT(std::string(coordinator->queries().ListJobs(filtered).status().message()),
                testing::HasSubstr("filter: has no term where one is wanted; terms are state=, name="))
        << open;
  }
  filtered.set_filter(" name=even  AND state=QUEUED ");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->jobs_size(), 3);
  filtered.set_filter("state=RUNING");
  EXPECT_THAT(std::string(coordinator->queries().ListJobs(filtered).status().message()),
              testing::EndsWith("has the state \"RUNING\"; states are QUEUED, STARTING, RUNNING, PAUSING, PAUSED, "
                                "CANCELLING, SUCCEEDED, FAILED, CANCELLED"));
}

}  // namespace
}  // namespace ampd::server
