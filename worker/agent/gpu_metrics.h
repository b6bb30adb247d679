#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "worker/device/gpu_monitor.h"

namespace ampd::agent {

// Returns the state of GPUs as metrics for Prometheus (docs/metrics.md). If a GPU does not report a value, that value's
// family has no series for this GPU. Families without any series are left out.
std::vector<prometheus::MetricFamily> GpuMetrics(const std::vector<device::GpuReadings>& gpus,
                                                 const std::string& driver_version);

}  // namespace ampd::agent
