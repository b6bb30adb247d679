#include "server/coordinator/job_queries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

TEST_F(JobQueriesTest, AJobThatPredicts_HasTheStepThatItsWorkerReportedLast) {
  ScriptedWorker worker("w1");
  const std::string id = CreateId();
  const v1::AttemptKey key = StartOn(worker, id);
  worker.Has(key, v1::Attempt::RUNNING).set_step(7);
  Exchange(worker);
  Job job = **coordinator->queries().GetJob(id);
  coordinator->queries().AddReportedStep(&job);
  EXPECT_EQ(job.progress().step(), 0) << "a job that trains has points";
  job.mutable_spec()->mutable_predict();
  coordinator->queries().AddReportedStep(&job);
  EXPECT_EQ(job.progress().step(), 7);
  job.mutable_progress()->set_step(9);
  coordinator->queries().AddReportedStep(&job);
  EXPECT_EQ(job.progress().step(), 9);
  job.mutable_progress()->set_step(0);
  job.set_state(Job::SUCCEEDED);
  coordinator->queries().AddReportedStep(&job);
  EXPECT_EQ(job.progress().step(), 0);
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
  filtered.set_filter(" name=even  AND state=queued ");
  EXPECT_EQ(coordinator->queries().ListJobs(filtered)->jobs_size(), 3);
  filtered.set_filter("state=cancelled OR name!=even");
  filtered.set_page_size(2);
  seen.clear();
  do {
    const auto page = coordinator->queries().ListJobs(filtered);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->total_size(), filtered.page_token().empty() ? 4 : 0);
    for (const Job& job : page->jobs()) {
      seen.push_back(job.id());
    }
    filtered.set_page_token(page->next_page_token());
  } while (!filtered.page_token().empty());
  EXPECT_THAT(seen, testing::ElementsAre(ids[5], ids[3], ids[2], ids[1])) << "pages hold matching jobs only";
}

TEST_F(JobQueriesTest, ListJobs_EndsAPageWhenItHasReadAsMuchOfTheHistoryAsItMay) {
  std::vector<std::string> ids;
  for (const char* name : {"wanted", "wanted", "other", "other", "other", "other", "other"}) {
    ids.push_back((*Create("", name))->id());
  }
  absl::StatusOr<JobPtr> result;                   // Pump writes it.
  for (const size_t ended : {0, 2, 3, 4, 5, 6}) {  // Job 1 stays in memory.
    v1::CancelJobRequest cancel;
    cancel.set_id(ids[ended]);
    coordinator->commands().CancelJob(cancel, Into(&result));
  }
  Pump();
  Pass(absl::Hours(2));
  const JobQueries queries(
      {.ledger = ledger.get(), .clock = &clock, .sessions = &coordinator->sessions(), .max_history_records = 2});
  v1::ListJobsRequest request;
  request.set_filter("name=wanted");
  std::vector<std::string> pages;
  do {
    const auto page = queries.ListJobs(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->total_size(), 0) << "counting would take too long";
    pages.push_back(absl::StrJoin(page->jobs(), " ", [](std::string* out, const Job& job) { *out += job.id(); }));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  // Each of the first three pages reads two of the six jobs in the history. The third one reaches the wanted job there,
  // and lists the wanted job in memory before it, because that was submitted later.
  EXPECT_THAT(pages, testing::ElementsAre("", "", absl::StrCat(ids[1], " ", ids[0]), ""));
}

// Returns why the jobs wait, the newest job first. An exclamation mark, as in "NO_WORKERS!", means that no worker could
// run the job.
std::vector<std::string> PendingOf(const v1::ListJobsResponse& page) {
  std::vector<std::string> all;
  for (const Job& job : page.jobs()) {
    all.push_back(!job.has_pending() ? "-"
                                     : absl::StrCat(v1::PendingReason::Code_Name(job.pending().reason()),
                                                    job.pending().no_worker_fits() ? "!" : ""));
  }
  return all;
}

TEST_F(JobQueriesTest, AQueuedJob_SaysWhyItWaits) {
  const std::string first = CreateId();
  EXPECT_THAT(PendingOf(*coordinator->queries().ListJobs({})), testing::ElementsAre("NO_WORKERS!"));
  ScriptedWorker worker("w1");
  const v1::AttemptKey key = StartOn(worker, first);
  const std::string second = CreateId();
  v1::CreateJobRequest create;
  *create.mutable_spec() = SmallSpec("on-a-gpu");
  create.mutable_spec()->mutable_resources()->set_kind(v1::ResourceSpec::GPU);
  absl::StatusOr<JobPtr> created;
  coordinator->commands().CreateJob(create, Into(&created));
  Pump();
  EXPECT_THAT(PendingOf(*coordinator->queries().ListJobs({})),
              testing::ElementsAre("NO_MATCHING_DEVICE!", "DEVICE_BUSY", "-"));
  for (const std::string& id : {second, (*created)->id(), first}) {
    Job job = **coordinator->queries().GetJob(id);
    coordinator->queries().AddPending(&job);
    v1::ExplainJobRequest explain;
    explain.set_id(id);
    const auto explained = coordinator->queries().ExplainJob(explain);
    EXPECT_EQ(job.has_pending(), id != first);
    EXPECT_EQ(job.pending().message(), id == first ? "" : explained->message()) << "the same words";
    EXPECT_EQ(job.pending().no_worker_fits(), explained->no_worker_fits());
  }
}

class FindJobsTest : public CoordinatorTest {
 protected:
  // Returns the ids of the jobs that a text may mean, with a "+" at the end if there are more.
  std::vector<std::string> Find(const std::string& text) {
    v1::FindJobsRequest request;
    request.set_text(text);
    const auto found = coordinator->queries().FindJobs(request);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> ids;
    for (const auto& match : found->matches()) {
      ids.push_back(match.id());
    }
    if (found->more()) {
      ids.emplace_back("+");
    }
    return ids;
  }
  void Cancel(const std::string& id) {
    v1::CancelJobRequest cancel;
    cancel.set_id(id);
    coordinator->commands().CancelJob(cancel, [](absl::StatusOr<JobPtr>) {});
    Pump();
  }
};

TEST_F(FindJobsTest, FindsByIdNameAndBeginningOfAnId) {
  const std::string a = (*Create("", "resnet"))->id();
  const std::string b = (*Create("", "bert"))->id();
  const std::string c = (*Create("", "resnet"))->id();
  EXPECT_THAT(Find(a), testing::ElementsAre(a));
  EXPECT_THAT(Find("bert"), testing::ElementsAre(b));
  EXPECT_THAT(Find("resnet"), testing::ElementsAre(c, a)) << "the newest first";
  EXPECT_THAT(Find(b.substr(0, 8)), testing::ElementsAre(b));
  EXPECT_THAT(Find("j-"), testing::IsEmpty()) << "too short for the beginning of an id";
  EXPECT_THAT(Find("resne"), testing::IsEmpty()) << "a name is compared as a whole";
  v1::FindJobsRequest empty;
  EXPECT_EQ(coordinator->queries().FindJobs(empty).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FindJobsTest, NoNameHasTheFormOfAnId_ButItMayBeTheBeginningOfOne) {
  const std::string a = (*Create("", "resnet"))->id();
  const absl::Status refused = Create("", a).status();
  ASSERT_EQ(ViolationsOf(refused).size(), 1);
  EXPECT_EQ(ViolationsOf(refused)[0].field, "name");
  EXPECT_THAT(Find(a), testing::ElementsAre(a));
  const std::string prefix = a.substr(0, 9);
  const std::string c = (*Create("", prefix))->id();
  EXPECT_THAT(Find(prefix), testing::ElementsAre(c, a)) << "a name and the beginning of an id";
}

TEST_F(FindJobsTest, JobsOfTheHistoryTable_AreFoundToo) {
  const std::string a = (*Create("", "resnet"))->id();
  const std::string b = (*Create("", "resnet"))->id();
  Cancel(a);
  Pass(absl::Hours(2));
  ASSERT_EQ(Shown(a), "none") << "still in memory";
  EXPECT_THAT(Find("resnet"), testing::ElementsAre(b, a));
  EXPECT_THAT(Find(a), testing::ElementsAre(a));
  EXPECT_THAT(Find(a.substr(0, 10)), testing::ElementsAre(a));
  StartServer();
  EXPECT_THAT(Find("resnet"), testing::ElementsAre(b, a));
  v1::DeleteJobRequest request;
  request.set_id(a);
  coordinator->commands().DeleteJob(request, [](absl::Status) {});
  Pump();
  EXPECT_THAT(Find("resnet"), testing::ElementsAre(b));
}

TEST_F(FindJobsTest, ManyJobsOfOneName_AreBounded) {
  std::vector<std::string> ids;
  for (int i = 0; i < 45; ++i) {
    ids.insert(ids.begin(), (*Create("", "resnet"))->id());
    if (i < 22) {
      Cancel(ids.front());
    }
  }
  Pass(absl::Hours(2));
  std::vector<std::string> newest(ids.begin(), ids.begin() + 20);
  newest.emplace_back("+");
  EXPECT_THAT(Find("resnet"), testing::ElementsAreArray(newest));
}

}  // namespace
}  // namespace ampd::server
