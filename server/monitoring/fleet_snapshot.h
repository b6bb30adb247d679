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

// All that one scrape shows of jobs and workers, taken at one time and never changed.
struct FleetSnapshot {
  struct JobRow {
    std::shared_ptr<const v1::Job> job;
    std::optional<ProgressBoard::Entry> progress;
  };
  std::vector<JobRow> jobs;                                // with series of their own
  std::vector<std::shared_ptr<const v1::Job>> seriesless;  // there was no room for theirs
  int64_t num_suppressed = 0;                              // jobs beyond the cap, by now: counts every job once
  std::map<std::pair<std::string, v1::Job::State>, int64_t> live_jobs;  // by queue and state
  std::map<std::string, int64_t> oldest_queued_unix_seconds;            // by queue
  std::vector<v1::Worker> workers;
};

// Renders the snapshot. Families and labels: docs/metrics.md. A pure function.
std::vector<prometheus::MetricFamily> RenderFleet(const FleetSnapshot& snapshot);

// A label value that no scraper chokes on: control characters become spaces, bytes that are not UTF-8 question marks.
std::string SafeLabelValue(const std::string& value);

}  // namespace ampd::server
