#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "ampd/v1/job.pb.h"
#include "base/health_checks.h"
#include "server/monitoring/call_observer.h"

namespace ampd::server {

// The server's own counters and histograms, in a Prometheus registry: calls, streams, ended jobs, the store, the
// scheduler. The present state of jobs and workers comes from the fleet snapshot. A series whose labels are known
// beforehand exists from the start, with the value zero. Thread-safe.
class ServerMetrics final : public CallObserver {
 public:
  ServerMetrics();

  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

  void Finished(std::string_view method, absl::StatusCode code, absl::Duration time, bool is_stream,
                const TraceContext& trace) override;
  void StreamOpened(std::string_view method) override;
  void StreamMessageSent(std::string_view method) override;

  // Counts the change of a job from `before` to `after`. `before` is null if the job is new. Call it in commit order.
  void JobChanged(const v1::Job* before, const v1::Job& after);
  void SchedulerCycle(size_t num_waiting, size_t num_placed, absl::Duration time);
  void TelemetryRefused() { store_errors_.Add({{"operation", "malformed"}}).Increment(); }
  void StoreWrite(absl::Duration time, bool ok);
  void StoreRead(absl::Duration time);
  // This function and the next ones set totals that other components count.
  void SetPointsDropped(int64_t total);
  void SetJobsSuppressed(int64_t total);
  void SetJournal(int64_t num_flushes, int64_t num_updates);
  void SetJobsExported(int64_t count) { jobs_exported_->Set(static_cast<double>(count)); }
  void SetConnections(int64_t num_open, int64_t num_refused, int64_t num_evicted);
  // `results` is indexed by HealthCheckId.
  void SetHealth(const std::array<bool, std::size(kHealthChecks)>& results);
  void SetCollectTime(absl::Duration time) { collect_->Set(absl::ToDoubleSeconds(time)); }

 private:
  // Returns the label for a method: "JobService/GetJob" for a known method, "other" for any other.
  const std::string& MethodLabel(std::string_view method);
  void CreateMethods();
  void CreateOutcomes();
  void CountAttempts(const v1::Job* before, const v1::Job& after);

  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Histogram>& request_seconds_;
  prometheus::Family<prometheus::Gauge>& streams_;
  prometheus::Family<prometheus::Counter>& stream_events_;
  prometheus::Family<prometheus::Counter>& submitted_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Family<prometheus::Counter>& requeues_;
  prometheus::Family<prometheus::Histogram>& queue_wait_;
  prometheus::Family<prometheus::Histogram>& run_;
  prometheus::Family<prometheus::Histogram>& store_seconds_;
  prometheus::Family<prometheus::Gauge>& health_;
  prometheus::Family<prometheus::Counter>& store_errors_;
  prometheus::Counter* points_dropped_;
  prometheus::Counter* jobs_suppressed_;
  prometheus::Counter* journal_flushes_;
  prometheus::Counter* journal_updates_;
  prometheus::Gauge* connections_;
  prometheus::Counter* connections_refused_;
  prometheus::Counter* connections_evicted_;
  prometheus::Gauge* jobs_exported_;
  prometheus::Gauge* collect_;
  prometheus::Histogram* scheduler_cycle_;
  prometheus::Family<prometheus::Counter>& scheduler_cycles_;
  std::map<std::string, std::string, std::less<>> methods_;  // Key: the full name. Filled by the constructor.
};

}  // namespace ampd::server
