#pragma once

#include <prometheus/collectable.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/api/tenants.h"
#include "server/monitoring/fleet_snapshot.h"
#include "server/monitoring/metrics.h"
#include "server/monitoring/snapshot_collector.h"

namespace ampd::server {

// Renders the page of /metrics. All numbers on a page are from the same moment: while the page is rendered, no change
// of a job is counted, so a change appears in all families or in none. Thread-safe.
class ScrapePage {
 public:
  struct Options {
    ServerMetrics* metrics = nullptr;
    std::function<std::shared_ptr<const FleetSnapshot>(absl::Time now)> take_snapshot;
    // Copies totals that other components count into `metrics`. May be null.
    std::function<void()> update_metrics;
    // More families, which the page shows after the server's own. Null pointers are skipped.
    std::vector<std::shared_ptr<prometheus::Collectable>> more;
  };
  explicit ScrapePage(Options options) : options_(std::move(options)), collector_(options_.metrics) {}

  // Returns the page in the text format of Prometheus. The page has only what a scraper of these tenants may see
  // (tenant_view.h). A scraper of all tenants sees everything.
  std::string Render(absl::Time now, const Tenants& tenants);
  // Returns the workers that serve one of these tenants, in the format of WorkerTargets.
  std::string RenderTargets(absl::Time now, const Tenants& tenants);
  // Takes a snapshot between scrapes. Otherwise ampd_exported_jobs_suppressed_total, which counts the jobs that have no
  // series of their own because of the limit of jobs, would miss jobs that begin and end between two scrapes.
  void Look(absl::Time now);
  // Waits until no page is being rendered, then runs `change`, which counts a change of a job.
  void Count(const std::function<void()>& change);

 private:
  const Options options_;
  absl::Mutex mutex_;
  SnapshotCollector collector_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::server
