#include "worker/agent/host_metrics.h"

#include <prometheus/client_metric.h>

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/host_stats.h"
#include "base/tls/tls_files.h"

namespace ampd::agent {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void Add(std::vector<ClientMetric::Label> labels, double value, MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
  (family->type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
}

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family{name, help, type, {}};
  Add({}, value, &family);
  return family;
}

std::vector<MetricFamily> Process() {
  const ProcessStats stats = ReadProcessStats();
  constexpr auto kGauge = MetricType::Gauge;
  return {
      Single("process_start_time_seconds", "Start of the agent, in seconds since the epoch.", kGauge,
             stats.start_unix_seconds),
      Single("process_cpu_seconds_total", "User and system time of the agent.", MetricType::Counter, stats.cpu_seconds),
      Single("process_resident_memory_bytes", "Resident memory of the agent.", kGauge, stats.resident_bytes),
      Single("process_open_fds", "Open file descriptors of the agent.", kGauge, stats.num_open_files),
      Single("process_max_fds", "Most file descriptors that the agent may open.", kGauge, stats.max_open_files),
  };
}

MetricFamily Pressure(const std::string& folder) {
  MetricFamily family{"ampd_worker_pressure_seconds_total",
                      "Time in which a task of the host had to wait for the resource.",
                      MetricType::Counter,
                      {}};
  for (const char* const resource : {"cpu", "io", "memory"}) {
    if (const std::optional<double> seconds = ReadPressureSeconds(resource, folder); seconds.has_value()) {
      Add({{"resource", resource}}, *seconds, &family);
    }
  }
  return family;
}

void AddDisks(const HostSources& sources, std::vector<MetricFamily>* families) {
  MetricFamily size{"ampd_worker_disk_size_bytes", "Size of the disk of a folder.", MetricType::Gauge, {}};
  MetricFamily free{"ampd_worker_disk_free_bytes", "Free space on the disk of a folder.", MetricType::Gauge, {}};
  for (const auto& [name, path] : sources.folders) {
    if (const absl::StatusOr<DiskSpace> disk = ReadDiskSpace(path); disk.ok()) {
      Add({{"folder", name}}, static_cast<double>(disk->size_bytes), &size);
      Add({{"folder", name}}, static_cast<double>(disk->free_bytes), &free);
    }
  }
  families->push_back(std::move(size));
  families->push_back(std::move(free));
}

MetricFamily Certificates(const HostSources& sources) {
  MetricFamily family{
      "ampd_certificate_expiry_timestamp_seconds", "When a certificate of the worker expires.", MetricType::Gauge, {}};
  for (const auto& [name, path] : sources.certificates) {
    const absl::StatusOr<absl::Time> expiry = CertificateExpiry(path);
    if (!path.empty() && expiry.ok()) {
      Add({{"certificate", name}}, static_cast<double>(absl::ToUnixSeconds(*expiry)), &family);
    }
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> HostMetrics(const HostSources& sources) {
  std::vector<MetricFamily> families = Process();
  families.push_back(Pressure(sources.pressure_folder));
  AddDisks(sources, &families);
  families.push_back(Certificates(sources));
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
  return families;
}

}  // namespace ampd::agent
