#include "server/monitoring/metrics_snapshotter.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/api/tenants.h"
#include "server/state/job_rules.h"

namespace ampd::server {

namespace {

// Ranks jobs: running jobs first, then jobs that start or stop, then ended jobs whose last values are still to be
// scraped. Queued and paused jobs come last.
int RankOf(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::RUNNING:
      return 0;
    case v1::Job::STARTING:
    case v1::Job::PAUSING:
    case v1::Job::CANCELLING:
      return 1;
    default:
      return IsTerminal(job.state()) ? 2 : 3;
  }
}

// Sorts the jobs by their claim to series of their own. The tenants take turns, so that a tenant with many jobs takes
// no series from a tenant with few jobs. Each tenant's jobs are sorted by rank, then by age, the oldest first.
// REQUIRES: `jobs` is sorted by age.
void OrderForSeries(std::vector<JobPtr>* jobs) {
  struct Place {
    int64_t turn = 0;
    int rank = 0;
    JobPtr job;
  };
  std::stable_sort(jobs->begin(), jobs->end(),
                   [](const JobPtr& a, const JobPtr& b) { return RankOf(*a) < RankOf(*b); });
  std::map<std::string, int64_t> num_taken;  // Key: the tenant.
  std::vector<Place> places;
  for (JobPtr& job : *jobs) {
    const int64_t turn = num_taken[TenantOrDefault(job->tenant())]++;
    places.push_back({turn, RankOf(*job), std::move(job)});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return std::tie(a.turn, a.rank) < std::tie(b.turn, b.rank); });
  std::transform(places.begin(), places.end(), jobs->begin(), [](Place& place) { return std::move(place.job); });
}

}  // namespace

std::shared_ptr<const FleetSnapshot> MetricsSnapshotter::TakeSnapshot(absl::Time now) {
  auto snapshot = std::make_shared<FleetSnapshot>();
  std::set<std::string> shown;
  std::vector<JobPtr> jobs = table_->Shown(now);
  for (const JobPtr& job : jobs) {
    shown.insert(job->id());
    if (!IsTerminal(job->state())) {
      const FleetSnapshot::Queue queue = QueueOf(*job);
      ++snapshot->live_jobs[{queue, job->state()}];
      if (job->state() == v1::Job::QUEUED) {
        snapshot->oldest_queued_unix_seconds.emplace(queue, job->create_time().seconds());
      }
    }
  }
  snapshot->oldest_queued_unix_seconds.emplace(FleetSnapshot::Queue{std::string(kDefaultTenant), "default"}, 0);
  OrderForSeries(&jobs);
  for (const JobPtr& job : jobs) {
    if (static_cast<int>(snapshot->jobs.size()) < max_jobs_) {
      snapshot->jobs.push_back({job, progress_->Find(job->id())});
    } else {
      num_suppressed_ += suppressed_.insert(job->id()).second ? 1 : 0;
      snapshot->seriesless.push_back(job);
    }
  }
  progress_->ForgetAllBut(shown);
  std::erase_if(suppressed_, [&](const std::string& id) { return !shown.contains(id); });
  snapshot->num_suppressed = num_suppressed_;
  AddWorkers(snapshot.get());
  return snapshot;
}

void MetricsSnapshotter::AddWorkers(FleetSnapshot* snapshot) const {
  v1::ListWorkersRequest request;
  request.set_page_size(500);
  do {
    absl::StatusOr<v1::ListWorkersResponse> page = sessions_->ListWorkers(request);
    if (!page.ok()) {
      return;
    }
    snapshot->workers.insert(snapshot->workers.end(), page->workers().begin(), page->workers().end());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
}

}  // namespace ampd::server
