#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace ampd::agent {

// What the metrics of the worker's host show.
struct HostSources {
  // Folders, by the names that metrics give them, such as {"state", PATH}.
  std::vector<std::pair<std::string, std::string>> folders;
  // Files with certificates in PEM form, by their names. Files without a path are skipped.
  std::vector<std::pair<std::string, std::string>> certificates;
  std::string pressure_folder = "/proc/pressure";
};

// Reads the host's state: pressure, space on disks, certificates, and this process. Leaves out what cannot be read.
std::vector<prometheus::MetricFamily> HostMetrics(const HostSources& sources);

}  // namespace ampd::agent
