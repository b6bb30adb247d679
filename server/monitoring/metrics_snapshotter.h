#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "server/coordinator/worker_sessions.h"
#include "server/monitoring/fleet_snapshot.h"
#include "server/monitoring/job_table.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// Takes the snapshot that /metrics shows. At most `max_jobs` jobs get their own series. The tenants with jobs take
// turns; among the jobs of a tenant, running jobs come first. Thread-compatible.
class MetricsSnapshotter {
 public:
  MetricsSnapshotter(const WorkerSessions* sessions, JobTable* table, ProgressBoard* progress, int max_jobs)
      : sessions_(sessions), table_(table), progress_(progress), max_jobs_(max_jobs) {}

  // Returns the snapshot at `now`. Also drops the progress of jobs that are no longer shown.
  std::shared_ptr<const FleetSnapshot> TakeSnapshot(absl::Time now);

 private:
  void AddWorkers(FleetSnapshot* snapshot) const;

  const WorkerSessions* const sessions_;
  JobTable* const table_;
  ProgressBoard* const progress_;
  const int max_jobs_;
  std::set<std::string> suppressed_;  // Jobs of the table that were ever beyond `max_jobs`.
  int64_t num_suppressed_ = 0;
};

}  // namespace ampd::server
