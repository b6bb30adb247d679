#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace ampd::agent {

// The folders and certificates on the worker's host that appear in its metrics.
struct HostSources {
  // Folders whose disks are measured, each with its name in the metrics, such as {"state", PATH}.
  std::vector<std::pair<std::string, std::string>> folders;
  // Files with certificates in PEM form, each with its name in the metrics. Entries with an empty path are skipped.
  std::vector<std::pair<std::string, std::string>> certificates;
  std::string pressure_folder = "/proc/pressure";
};

// Returns metrics of the host and of this process: pressure on CPU, I/O and memory, space on disks, and the expiry of
// certificates. Leaves out what can't be read.
std::vector<prometheus::MetricFamily> HostMetrics(const HostSources& sources);

}  // namespace ampd::agent
