#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/monitoring/fleet_collector.h"
#include "server/monitoring/fleet_snapshot.h"
#include "server/monitoring/metrics.h"

namespace ampd::server {

// The page of /metrics. All its numbers are of one moment: while a page is made, no change of a job is counted, and a
// change is counted in every family or in none. Thread-safe.
class ScrapePage {
 public:
  struct Options {
    ServerMetrics* metrics = nullptr;
    std::function<std::shared_ptr<const FleetSnapshot>(absl::Time now)> take_fleet;
    // Brings numbers that others count into `metrics`. May be null.
    std::function<void()> update_metrics;
    // Shown behind the server's own; null pointers are passed over.
    std::vector<std::shared_ptr<prometheus::Collectable>> more;
  };
  explicit ScrapePage(Options options) : options_(std::move(options)), fleet_(options_.metrics) {}

  // In the text format of Prometheus.
  std::string Render(absl::Time now);
  // Looks at the jobs without a scrape, so that one without room for its series is counted however short it lives.
  void Look(absl::Time now);
  // Counts a change, between two pages and not within one.
  void Count(const std::function<void()>& change);

 private:
  const Options options_;
  absl::Mutex mutex_;
  FleetCollector fleet_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
