// Tests what a scraper with only some tenants sees, for all families of metrics.
#include "server/monitoring/tenant_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/monitoring/log_counter.h"
#include "server/monitoring/metrics.h"
#include "server/monitoring/scrape_page.h"
#include "server/monitoring/snapshot_collector.h"

namespace ampd::server {
namespace {

using prometheus::MetricFamily;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Returns a job whose texts all contain its tenant's name.
v1::Job JobOf(const std::string& tenant) {
  v1::Job job;
  job.set_id("j-" + tenant);
  job.set_tenant(tenant);
  job.set_state(v1::Job::RUNNING);
  job.mutable_spec()->set_name("name-" + tenant);
  job.mutable_spec()->set_queue("queue-" + tenant);
  job.mutable_spec()->mutable_model()->mutable_lenet();
  job.mutable_spec()->mutable_train()->set_steps(1000);
  job.mutable_spec()->mutable_data()->mutable_train()->mutable_tokens()->set_sequence_length(64);
  job.mutable_start_time()->set_seconds(1'700'000'000);
  v1::Attempt* const attempt = job.add_attempts();
  attempt->set_state(v1::Attempt::RUNNING);
  attempt->set_worker("worker-" + tenant);
  attempt->add_devices("gpu0");
  attempt->set_precision("precision-" + tenant);
  job.add_checkpoints()->set_size_bytes(4096);
  job.mutable_checkpoints(0)->set_save_seconds(1.5);
  return job;
}

// Returns the progress of a job, with every optional value set.
ProgressBoard::Entry ProgressOf(const std::string& tenant) {
  ProgressBoard::Entry entry;
  v1::Progress& progress = entry.progress;
  progress.set_step(10);
  progress.set_loss(0.5);
  progress.set_eval_loss(0.5);
  progress.set_flops_per_second(1e12);
  progress.set_mfu(0.5);
  progress.set_power_watts(300);
  progress.set_device_utilization(0.5);
  progress.set_memory_reserved_bytes(1e9);
  progress.set_allocation_retries(2);
  progress.add_phases()->set_name("phase-" + tenant);
  entry.last_overflow_unix_micros = 1;
  entry.energy_joules = 300;
  return entry;
}

v1::Worker WorkerOf(const std::string& name, const std::vector<std::string>& tenants) {
  v1::Worker worker;
  worker.set_name("worker-" + name);
  worker.set_state(v1::Worker::BUSY);
  worker.set_metrics_address("10.0.0.1:7072");
  worker.mutable_last_report_time()->set_seconds(1'700'000'200);
  worker.mutable_tenants()->Assign(tenants.begin(), tenants.end());
  v1::Device* const gpu = worker.add_devices();
  gpu->set_kind(v1::Device::GPU);
  gpu->set_id("gpu0");
  gpu->set_uuid("GPU-" + name);
  return worker;
}

// Two tenants, "marlin" and "heron". Each has a job and a worker. One more worker serves both, and one serves all
// tenants.
class TenantViewTest : public testing::Test {
 protected:
  TenantViewTest()
      : page_({.metrics = &metrics_,
               .take_snapshot = [](absl::Time) { return Snapshot(); },
               .more = {std::make_shared<ProcessCollector>(), std::make_shared<LogCounter>()}}) {
    for (const char* const tenant : {"marlin", "heron"}) {
      const v1::Job job = JobOf(tenant);
      v1::Job queued = job;
      queued.set_state(v1::Job::QUEUED);
      queued.clear_attempts();
      v1::Job done = job;
      done.set_state(v1::Job::SUCCEEDED);
      metrics_.JobChanged(nullptr, queued);
      metrics_.JobChanged(&job, done);
    }
  }

  static std::shared_ptr<const FleetSnapshot> Snapshot() {
    auto snapshot = std::make_shared<FleetSnapshot>();
    for (const char* const tenant : {"marlin", "heron"}) {
      auto job = std::make_shared<v1::Job>(JobOf(tenant));
      snapshot->jobs.push_back({job, ProgressOf(tenant)});
      auto waiting = std::make_shared<v1::Job>(JobOf(tenant));
      waiting->set_state(v1::Job::QUEUED);
      waiting->clear_attempts();
      snapshot->seriesless.push_back(waiting);
      ++snapshot->live_jobs[{QueueOf(*job), job->state()}];
      snapshot->oldest_queued_unix_seconds[QueueOf(*job)] = 1'700'000'000;
      snapshot->workers.push_back(WorkerOf(tenant, {tenant}));
    }
    snapshot->workers.push_back(WorkerOf("both", {"marlin", "heron"}));
    snapshot->workers.push_back(WorkerOf("all", {}));
    return snapshot;
  }

  std::string Page(const Tenants& tenants) { return page_.Render(absl::UnixEpoch(), tenants); }

  // Returns all families that the server can show.
  std::vector<MetricFamily> AllFamilies() {
    std::vector<MetricFamily> families = metrics_.registry()->Collect();
    for (std::vector<MetricFamily> more :
         {RenderFleet(*Snapshot()), ProcessCollector().Collect(), LogCounter().Collect()}) {
      std::move(more.begin(), more.end(), std::back_inserter(families));
    }
    return families;
  }

  ServerMetrics metrics_;
  ScrapePage page_;
};

TEST_F(TenantViewTest, AScraperOfOneTenantSeesNoByteOfTheOther) {
  const std::string all = Page(Tenants::All());
  EXPECT_THAT(all, AllOf(HasSubstr("marlin"), HasSubstr("heron")));
  for (const auto& [own, other] : {std::pair("marlin", "heron"), std::pair("heron", "marlin")}) {
    const std::string page = Page(Tenants({own}));
    EXPECT_THAT(page, Not(HasSubstr(other)));
    for (const char* const part : {"j-", "name-", "queue-", "worker-", "precision-", "phase-", "GPU-"}) {
      EXPECT_THAT(page, HasSubstr(absl::StrCat(part, own)));
    }
    EXPECT_THAT(page, AllOf(HasSubstr("\"worker-both\""), HasSubstr("\"worker-all\"")));
    EXPECT_THAT(page, HasSubstr("ampd_workers{state=\"busy\"} 3\n"));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("ampd_jobs{tenant=\"", own, "\",queue=\"queue-", own,
                                             "\",state=\"running\"} 1\n")));
  }
  EXPECT_THAT(Page(Tenants({"marlin", "heron"})), AllOf(HasSubstr("j-marlin"), HasSubstr("j-heron")));
  EXPECT_THAT(Page(Tenants({"third"})), AllOf(HasSubstr("ampd_build_info"), Not(HasSubstr("marlin")),
                                              Not(HasSubstr("heron")), HasSubstr("\"worker-all\"")));
}

TEST_F(TenantViewTest, AScraperOfOneTenantIsToldOfTheWorkersThatServeIt) {
  const std::string targets = page_.RenderTargets(absl::UnixEpoch(), Tenants({"marlin"}));
  EXPECT_THAT(targets, AllOf(HasSubstr("\"worker-marlin\""), HasSubstr("\"worker-both\""), HasSubstr("\"worker-all\""),
                             Not(HasSubstr("heron"))));
  EXPECT_THAT(page_.RenderTargets(absl::UnixEpoch(), Tenants::All()), HasSubstr("\"worker-heron\""));
}

// Each family of metrics must either be listed in TenantFamilies(), or be left out of the page as a whole.
TEST_F(TenantViewTest, EveryFamilyIsOfTenants_OrIsLeftOut) {
  std::set<std::string> listed;
  for (const TenantFamily& family : TenantFamilies()) {
    listed.insert(std::string(family.name));
  }
  const std::string page = Page(Tenants({"marlin"}));
  std::set<std::string> names;
  for (const MetricFamily& family : AllFamilies()) {
    names.insert(family.name);
    EXPECT_EQ(page.find(absl::StrCat("# TYPE ", family.name, " ")) != std::string::npos, listed.contains(family.name))
        << family.name;
  }
  EXPECT_GT(names.size(), listed.size());
  for (const std::string& name : listed) {
    EXPECT_TRUE(names.contains(name)) << name << " is in the table and not in the page";
  }
}

TEST_F(TenantViewTest, EverySeriesOfAFamilyAboutTenants_NamesItsTenant) {
  for (const MetricFamily& family : AllFamilies()) {
    const auto row = std::find_if(TenantFamilies().begin(), TenantFamilies().end(),
                                  [&](const TenantFamily& one) { return one.name == family.name; });
    const bool is_about_tenants = row != TenantFamilies().end() && row->about == TenantFamily::About::kTenant;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const bool names_tenant = std::any_of(metric.label.begin(), metric.label.end(),
                                            [](const auto& label) { return label.name == "tenant"; });
      EXPECT_EQ(names_tenant, is_about_tenants) << family.name;
    }
  }
}

}  // namespace
}  // namespace ampd::server
