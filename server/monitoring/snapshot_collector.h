#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/monitoring/fleet_snapshot.h"
#include "server/monitoring/metrics.h"

namespace ampd::server {

// Renders the newest snapshot for each scrape. All series of one scrape show the same moment, and a job that is not in
// the snapshot has no series. Thread-safe.
class SnapshotCollector final : public prometheus::Collectable {
 public:
  explicit SnapshotCollector(ServerMetrics* metrics) : metrics_(metrics) {}

  void Show(std::shared_ptr<const FleetSnapshot> snapshot) {
    absl::MutexLock lock(&mutex_);
    snapshot_ = std::move(snapshot);
  }
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  ServerMetrics* const metrics_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const FleetSnapshot> snapshot_ ABSL_GUARDED_BY(mutex_) = std::make_shared<FleetSnapshot>();
};

// The standard process_* families, read from /proc at each scrape, because prometheus-cpp has none. Thread-safe.
class ProcessCollector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace ampd::server
