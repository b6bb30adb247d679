#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ampd/v1/job.pb.h"
#include "ampd/v1/worker.pb.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// All facts about jobs and workers that one scrape shows, taken at one moment. Immutable.
struct FleetSnapshot {
  struct JobRow {
    std::shared_ptr<const v1::Job> job;
    std::optional<ProgressBoard::Entry> progress;
  };
  // A queue of a tenant. Tenants choose the names of their queues, so queues of two tenants may have the same name.
  struct Queue {
    std::string tenant, name;
    auto operator<=>(const Queue&) const = default;
  };
  std::vector<JobRow> jobs;                                // Jobs with series of their own.
  std::vector<std::shared_ptr<const v1::Job>> seriesless;  // Jobs without series, beyond the limit.
  int64_t num_suppressed = 0;                              // Number of jobs that have ever been in `seriesless`.
  std::map<std::pair<Queue, v1::Job::State>, int64_t> live_jobs;
  std::map<Queue, int64_t> oldest_queued_unix_seconds;
  std::vector<v1::Worker> workers;
};

// Renders the snapshot. docs/metrics.md lists families and labels. A pure function.
std::vector<prometheus::MetricFamily> RenderFleet(const FleetSnapshot& snapshot);

// Returns the queue in which the job waits or has waited.
FleetSnapshot::Queue QueueOf(const v1::Job& job);

// Returns `value` as a label that every scraper accepts: control characters become spaces, and bytes that are not UTF-8
// become question marks.
std::string SafeLabelValue(const std::string& value);

}  // namespace ampd::server
