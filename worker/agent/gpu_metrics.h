#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "worker/device/gpu_monitor.h"

namespace ampd::agent {

// Returns the state of GPUs as metrics for Prometheus (docs/metrics.md). A value that a GPU does not report has no
// series; a family without series is left out.
std::vector<prometheus::MetricFamily> GpuMetrics(const std::vector<device::GpuReadings>& gpus,
                                                 const std::string& driver_version);

}  // namespace ampd::agent
