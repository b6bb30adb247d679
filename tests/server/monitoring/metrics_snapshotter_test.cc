// Tests which jobs /metrics shows when jobs are created, end and disappear, by rendering the snapshots of
// MetricsSnapshotter.
#include "server/monitoring/metrics_snapshotter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <set>
#include <string>

#include "base/random.h"
#include "base/simulated_clock.h"
#include "server/coordinator/coordinator.h"
#include "server/ledger/ledger.h"
#include "server/ledger/memory_journal.h"
#include "server/monitoring/snapshot_collector.h"
#include "tests/server/telemetry/history_fixtures.h"

namespace ampd::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kMaxJobs = 200;
constexpr absl::Duration kLinger = absl::Minutes(2);
const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

class MetricsSnapshotterTest : public testing::Test {
 protected:
  MetricsSnapshotterTest() {
    Ledger::Options ledger;
    ledger.journal = std::make_unique<MemoryJournal>(std::make_shared<MemoryJournal::Disk>());
    ledger_ = *Ledger::Open(std::move(ledger));
    Coordinator::Options options;
    options.ledger = ledger_.get();
    options.clock = &clock_;
    options.random = &random_;
    options.listener = &listener_;
    coordinator_ = std::make_unique<Coordinator>(std::move(options));
    snapshotter_ = std::make_unique<MetricsSnapshotter>(&coordinator_->sessions(), &table_, &progress_, kMaxJobs);
  }

  // Stores the job in this state at `now`, as if the change came from the ledger. The job has done ten steps.
  void Put(const std::string& id, v1::Job::State state, absl::Time now, const std::string& tenant = "default") {
    auto job = std::make_shared<v1::Job>();
    job->set_id(id);
    job->set_tenant(tenant);
    job->set_state(state);
    job->set_submit_order(++num_jobs_);
    job->mutable_spec()->mutable_train()->set_steps(10);
    table_.Put(job, now);
    PointSegment segment;
    segment.attempt = 1;
    segment.batch = Steps(1, 10);
    progress_.Update({id, 1, {}, MergeHistory({segment}, {}, false, false)});
  }

  std::string Page(absl::Time now) {
    collector_.Show(snapshotter_->TakeSnapshot(now));
    return prometheus::TextSerializer().Serialize(collector_.Collect());
  }

  FleetSnapshot Snapshot(absl::Time now) { return *snapshotter_->TakeSnapshot(now); }
  void Report(const std::string& worker) {
    v1::WorkerReport report;
    report.set_worker(worker);
    report.set_incarnation("a1");
    report.set_sequence(1);
    EXPECT_TRUE(coordinator_->sessions().HandleReport(report).ok());
    Pump();
  }
  void LoseAll() {
    clock_.Advance(absl::Minutes(1));
    coordinator_->Tick();
    Pump();
  }
  void Remove(const std::string& worker) {
    v1::RemoveWorkerRequest request;
    request.set_name(worker);
    coordinator_->sessions().RemoveWorker(request, [](const absl::Status& status) { EXPECT_TRUE(status.ok()); });
    Pump();
  }

 private:
  void Pump() {
    while (ledger_->CommitGroup()) {
    }
  }

  int64_t num_jobs_ = 0;
  SimulatedClock clock_;
  SeededRandom random_{1};
  StateListener listener_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Coordinator> coordinator_;
  JobTable table_{kLinger};
  ProgressBoard progress_;
  std::unique_ptr<MetricsSnapshotter> snapshotter_;
  ServerMetrics metrics_;
  SnapshotCollector collector_{&metrics_};
};

TEST_F(MetricsSnapshotterTest, SeriesOfAJobLeaveThePageAfterTheLinger) {
  Put("j-ended", v1::Job::RUNNING, kStart);
  Put("j-live", v1::Job::RUNNING, kStart);
  Put("j-ended", v1::Job::SUCCEEDED, kStart + absl::Hours(1));
  const absl::Time gone = kStart + absl::Hours(1) + kLinger;
  const std::string before = Page(gone - absl::Seconds(1));
  EXPECT_THAT(before, HasSubstr("ampd_job_info{job_id=\"j-ended\""));
  EXPECT_THAT(before, HasSubstr("ampd_job_steps_total{job_id=\"j-ended\",tenant=\"default\"} 10")) << "the last values";
  EXPECT_THAT(before, HasSubstr("ampd_jobs{tenant=\"default\",queue=\"default\",state=\"running\"} 1"))
      << "only one is live";
  const std::string after = Page(gone);
  EXPECT_THAT(after, Not(HasSubstr("j-ended")));
  EXPECT_THAT(after, HasSubstr("ampd_job_steps_total{job_id=\"j-live\",tenant=\"default\"} 10"));
}

TEST_F(MetricsSnapshotterTest, JobsThatRunHaveSeriesBeforeThoseThatWaitOrHaveEnded) {
  for (int i = 0; i < kMaxJobs; ++i) {
    Put("j-waits-" + std::to_string(i), v1::Job::QUEUED, kStart);
  }
  Put("j-ended", v1::Job::RUNNING, kStart);
  Put("j-ended", v1::Job::SUCCEEDED, kStart);
  Put("j-starts", v1::Job::STARTING, kStart);
  Put("j-runs", v1::Job::RUNNING, kStart);
  Put("j-paused", v1::Job::PAUSED, kStart);
  const FleetSnapshot snapshot = Snapshot(kStart);
  ASSERT_EQ(snapshot.jobs.size(), kMaxJobs);
  EXPECT_EQ(snapshot.jobs[0].job->id(), "j-runs");
  EXPECT_EQ(snapshot.jobs[1].job->id(), "j-starts");
  EXPECT_EQ(snapshot.jobs[2].job->id(), "j-ended");
  EXPECT_EQ(snapshot.jobs[3].job->id(), "j-waits-0") << "then by age";
  EXPECT_EQ(snapshot.num_suppressed, 4) << "three that wait, and the paused one";
  EXPECT_EQ(Snapshot(kStart).num_suppressed, 4) << "each is counted once";
}

TEST_F(MetricsSnapshotterTest, AJobThatFallsBeyondTheCapAgain_IsNotCountedTwice) {
  for (int i = 0; i < kMaxJobs; ++i) {
    Put("j-" + std::to_string(i), v1::Job::RUNNING, kStart);
  }
  Put("j-waits", v1::Job::QUEUED, kStart);
  EXPECT_EQ(Snapshot(kStart).num_suppressed, 1);
  Put("j-0", v1::Job::QUEUED, kStart);
  EXPECT_EQ(Snapshot(kStart).num_suppressed, 2) << "j-0 is younger than j-waits now, and waits too";
  Put("j-0", v1::Job::RUNNING, kStart);
  EXPECT_EQ(Snapshot(kStart).num_suppressed, 2) << "j-waits again";
}

TEST_F(MetricsSnapshotterTest, SeriesOfAWorkerLeaveThePageWhenItIsRemoved) {
  Report("w1");
  Report("w2");
  EXPECT_THAT(Page(kStart), HasSubstr("ampd_worker_last_heartbeat_timestamp_seconds{worker=\"w1\"}"));
  LoseAll();
  const std::string lost = Page(kStart);
  EXPECT_THAT(lost, HasSubstr("{worker=\"w1\"}"));
  EXPECT_THAT(lost, HasSubstr("ampd_workers{state=\"lost\"} 2"));
  Remove("w1");
  const std::string removed = Page(kStart);
  EXPECT_THAT(removed, Not(HasSubstr("\"w1\"")));
  EXPECT_THAT(removed, HasSubstr("{worker=\"w2\"}"));
  EXPECT_THAT(removed, HasSubstr("ampd_workers{state=\"lost\"} 1"));
}

TEST_F(MetricsSnapshotterTest, WithMoreRunningThanFitTheOldestKeepTheirSeries) {
  for (int i = 0; i < kMaxJobs + 5; ++i) {
    Put("j-" + std::to_string(i), v1::Job::RUNNING, kStart);
  }
  const FleetSnapshot snapshot = Snapshot(kStart);
  EXPECT_EQ(snapshot.jobs.front().job->id(), "j-0");
  EXPECT_EQ(snapshot.jobs.back().job->id(), "j-" + std::to_string(kMaxJobs - 1));
  EXPECT_EQ(snapshot.seriesless.size(), 5);
  EXPECT_EQ((snapshot.live_jobs.at({{"default", "default"}, v1::Job::RUNNING})), kMaxJobs + 5) << "all are counted";
}

TEST_F(MetricsSnapshotterTest, ATenantWithManyJobs_TakesNoSeriesFromOneWithFew) {
  for (int i = 0; i < kMaxJobs + 5; ++i) {
    Put("j-many-" + std::to_string(i), v1::Job::RUNNING, kStart, "many");
  }
  Put("j-few-waits", v1::Job::QUEUED, kStart, "few");
  Put("j-few-runs", v1::Job::RUNNING, kStart, "few");
  const FleetSnapshot snapshot = Snapshot(kStart);
  ASSERT_EQ(snapshot.jobs.size(), kMaxJobs);
  std::set<std::string> shown;
  for (const FleetSnapshot::JobRow& row : snapshot.jobs) {
    shown.insert(row.job->id());
  }
  EXPECT_TRUE(shown.contains("j-few-runs"));
  EXPECT_TRUE(shown.contains("j-few-waits"));
  EXPECT_TRUE(shown.contains("j-many-" + std::to_string(kMaxJobs - 3))) << "what the one leaves is for the other";
  EXPECT_EQ(snapshot.seriesless.size(), 7);
}

}  // namespace
}  // namespace ampd::server
