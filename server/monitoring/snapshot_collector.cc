#include "server/monitoring/snapshot_collector.h"

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/io/host_stats.h"

namespace ampd::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.resize(1);
  family.metric[0].gauge.value = value;
  family.metric[0].counter.value = value;
  return family;
}

}  // namespace

std::vector<MetricFamily> SnapshotCollector::Collect() const {
  const absl::Duration start = SystemClock().SinceBoot();
  std::shared_ptr<const FleetSnapshot> snapshot;
  {
    absl::MutexLock lock(&mutex_);
    snapshot = snapshot_;
  }
  std::vector<MetricFamily> families = RenderFleet(*snapshot);
  metrics_->SetJobsExported(static_cast<int64_t>(snapshot->jobs.size()));
  metrics_->SetJobsSuppressed(snapshot->num_suppressed);
  metrics_->SetCollectTime(SystemClock().SinceBoot() - start);
  return families;
}

std::vector<MetricFamily> ProcessCollector::Collect() const {
  const ProcessStats stats = ReadProcessStats();
  return {
      Single("process_start_time_seconds", "Start of the process, in seconds since the epoch.", MetricType::Gauge,
             stats.start_unix_seconds),
      Single("process_cpu_seconds_total", "User and system time.", MetricType::Counter, stats.cpu_seconds),
      Single("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge, stats.resident_bytes),
      Single("process_open_fds", "Open file descriptors.", MetricType::Gauge, stats.num_open_files),
      Single("process_max_fds", "Most file descriptors that may be open.", MetricType::Gauge, stats.max_open_files),
  };
}

}  // namespace ampd::server
