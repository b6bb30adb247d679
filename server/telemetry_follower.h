#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "server/monitoring/job_table.h"
#include "server/monitoring/metrics.h"
#include "server/telemetry/metric_store.h"
#include "server/telemetry/metrics_hub.h"
#include "server/telemetry/progress.h"

namespace ampd::server {

// The metric store calls OnRead after a read, on the reading thread, and the other functions after a write, on its own
// thread. Implementations must be quick.
class TelemetryListener {
 public:
  virtual ~TelemetryListener() = default;
  virtual void OnStored(const StoredHistory& stored) = 0;
  virtual void OnLogStored(const std::string& job) = 0;
  virtual void OnSkipped(const TelemetrySkip& skip) = 0;
  // Called after each transaction; `ok` is false if it failed.
  virtual void OnGroupWritten(absl::Duration time, bool ok) = 0;
  virtual void OnRead(absl::Duration time) = 0;
};

// Sets the callbacks in the store's options so that they call the listener, which must outlive the store.
void ListenTo(MetricStore::Options* store, TelemetryListener* listener);

// Passes new data of the metric store on to the jobs' progress, to watchers and to the server's metrics. Logs errors of
// the store, with the job's trace from `table`. Thread-safe, because the store calls it on several threads.
class TelemetryFollower final : public TelemetryListener {
 public:
  TelemetryFollower(ProgressBoard* progress, MetricsHub* hub, ServerMetrics* metrics, JobTable* table)
      : progress_(progress), hub_(hub), metrics_(metrics), table_(table) {}

  void OnStored(const StoredHistory& stored) override;
  void OnLogStored(const std::string& job) override { hub_->PublishLog(job); }
  void OnSkipped(const TelemetrySkip& skip) override;
  void OnGroupWritten(absl::Duration time, bool ok) override;
  void OnRead(absl::Duration time) override { metrics_->StoreRead(time); }

 private:
  ProgressBoard* const progress_;
  MetricsHub* const hub_;
  ServerMetrics* const metrics_;
  JobTable* const table_;
  bool store_fails_ = false;  // Used only by the store's writing thread.
};

}  // namespace ampd::server
