#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "server/coordinator/coordinator.h"
#include "server/monitoring/fleet_snapshot.h"
#include "server/monitoring/job_table.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// Makes the snapshot that /metrics shows. Of the jobs, those that run come first among the at most `max_jobs` with
// series of their own. Thread-compatible.
class FleetWatch {
 public:
  FleetWatch(const Coordinator* coordinator, JobTable* table, ProgressBoard* progress, int max_jobs)
      : coordinator_(coordinator), table_(table), progress_(progress), max_jobs_(max_jobs) {}

  // Also lets go of the progress of jobs that are shown no more.
  std::shared_ptr<const FleetSnapshot> Take(absl::Time now);

 private:
  void AddWorkers(FleetSnapshot* snapshot) const;

  const Coordinator* const coordinator_;
  JobTable* const table_;
  ProgressBoard* const progress_;
  const int max_jobs_;
  std::set<std::string> suppressed_;  // shown jobs that had no room
  int64_t num_suppressed_ = 0;
};

}  // namespace ampd::server
