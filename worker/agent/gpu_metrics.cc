#include "worker/agent/gpu_metrics.h"

#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ampd::agent {
namespace {

using device::GpuReadings;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

// Builds one family of metrics, with one series per GPU.
class Family {
 public:
  Family(const std::string& name, const std::string& help, MetricType type) : family_{name, help, type, {}} {}

  void Add(const GpuReadings& gpu, double value, const Labels& more = {}) {
    ClientMetric metric;
    metric.label = {{"gpu", gpu.id}, {"UUID", gpu.uuid}};
    metric.label.insert(metric.label.end(), more.begin(), more.end());
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }

  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

template <typename Number>
void AddEach(const std::string& name, const std::string& help, MetricType type, const std::vector<GpuReadings>& gpus,
             std::optional<Number> GpuReadings::*reading, std::vector<MetricFamily>* families) {
  Family family(name, help, type);
  for (const GpuReadings& gpu : gpus) {
    if ((gpu.*reading).has_value()) {
      family.Add(gpu, static_cast<double>(*(gpu.*reading)));
    }
  }
  families->push_back(family.Take());
}

MetricFamily Info(const std::vector<GpuReadings>& gpus, const std::string& driver_version) {
  Family family("ampd_gpu_info", "Name of the GPU and version of its driver; the value is always 1.",
                MetricType::Gauge);
  for (const GpuReadings& gpu : gpus) {
    family.Add(gpu, 1, {{"name", gpu.name}, {"driver", driver_version}});
  }
  return family.Take();
}

MetricFamily EccErrors(const std::vector<GpuReadings>& gpus) {
  Family family("ampd_gpu_ecc_errors_total", "Errors of the GPU's memory since the driver was loaded.",
                MetricType::Counter);
  for (const GpuReadings& gpu : gpus) {
    if (gpu.ecc_errors_corrected.has_value()) {
      family.Add(gpu, static_cast<double>(*gpu.ecc_errors_corrected), {{"type", "corrected"}});
    }
    if (gpu.ecc_errors_uncorrected.has_value()) {
      family.Add(gpu, static_cast<double>(*gpu.ecc_errors_uncorrected), {{"type", "uncorrected"}});
    }
  }
  return family.Take();
}

MetricFamily XidErrors(const std::vector<GpuReadings>& gpus) {
  Family family("ampd_gpu_xid_errors_total", "Faults that the driver reported, by their Xid, since the agent started.",
                MetricType::Counter);
  for (const GpuReadings& gpu : gpus) {
    for (const auto& [xid, count] : gpu.num_xid_errors) {
      family.Add(gpu, static_cast<double>(count), {{"xid", absl::StrCat(xid)}});
    }
  }
  return family.Take();
}

}  // namespace

std::vector<MetricFamily> GpuMetrics(const std::vector<GpuReadings>& gpus, const std::string& driver_version) {
  constexpr auto kGauge = MetricType::Gauge;
  std::vector<MetricFamily> families = {Info(gpus, driver_version)};
  AddEach("ampd_gpu_memory_total_bytes", "Memory of the GPU.", kGauge, gpus, &GpuReadings::memory_total_bytes,
          &families);
  AddEach("ampd_gpu_memory_used_bytes", "Memory in use, by all processes.", kGauge, gpus,
          &GpuReadings::memory_used_bytes, &families);
  AddEach("ampd_gpu_utilization_ratio", "Share of the last sample period in which a kernel ran.", kGauge, gpus,
          &GpuReadings::utilization, &families);
  AddEach("ampd_gpu_temperature_celsius", "Temperature of the chip.", kGauge, gpus, &GpuReadings::temperature_celsius,
          &families);
  AddEach("ampd_gpu_power_watts", "Power that the GPU draws, with its memory.", kGauge, gpus, &GpuReadings::power_watts,
          &families);
  AddEach("ampd_gpu_power_limit_watts", "Power at which the GPU slows down.", kGauge, gpus,
          &GpuReadings::power_limit_watts, &families);
  AddEach("ampd_gpu_sm_clock_hertz", "Clock of the multiprocessors.", kGauge, gpus, &GpuReadings::sm_clock_hertz,
          &families);
  AddEach("ampd_gpu_memory_clock_hertz", "Clock of the memory.", kGauge, gpus, &GpuReadings::memory_clock_hertz,
          &families);
  AddEach("ampd_gpu_energy_joules_total", "Energy that the GPU used since the driver was loaded.", MetricType::Counter,
          gpus, &GpuReadings::energy_joules, &families);
  families.push_back(EccErrors(gpus));
  families.push_back(XidErrors(gpus));
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
  return families;
}

}  // namespace ampd::agent
