#include "server/monitoring/resource_collector.h"

#include <prometheus/client_metric.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/io/host_stats.h"
#include "base/tls/tls_files.h"

namespace ampd::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Gauge(const char* name, const char* help) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = MetricType::Gauge;
  return family;
}

void Add(std::vector<ClientMetric::Label> labels, double value, MetricFamily* family) {
  ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
  metric.gauge.value = value;
}

}  // namespace

std::vector<MetricFamily> ResourceCollector::Collect() const {
  std::vector<MetricFamily> families;
  if (const absl::StatusOr<DiskSpace> disk = ReadDiskSpace(options_.data_dir); disk.ok()) {
    MetricFamily size = Gauge("ampd_data_disk_size_bytes", "Size of the disk of the data directory.");
    MetricFamily free = Gauge("ampd_data_disk_free_bytes", "Free space on the disk of the data directory.");
    Add({}, static_cast<double>(disk->size_bytes), &size);
    Add({}, static_cast<double>(disk->free_bytes), &free);
    families = {std::move(size), std::move(free)};
  }
  MetricFamily expiries =
      Gauge("ampd_certificate_expiry_timestamp_seconds", "When a certificate of the server expires.");
  for (const auto& [name, path] : options_.certificates) {
    const absl::StatusOr<absl::Time> expiry = CertificateExpiry(path);
    if (!path.empty() && expiry.ok()) {
      Add({{"certificate", name}}, static_cast<double>(absl::ToUnixSeconds(*expiry)), &expiries);
    }
  }
  if (!expiries.metric.empty()) {
    families.push_back(std::move(expiries));
  }
  return families;
}

}  // namespace ampd::server
