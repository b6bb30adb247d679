#include "worker/device/gpu_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ampd::device {
namespace {

// How many errors a counter has counted since the first reading; unset if a reading is unset.
std::optional<int64_t> Added(const std::optional<int64_t>& first, const std::optional<int64_t>& newest) {
  return first.has_value() && newest.has_value() ? std::optional(std::max<int64_t>(*newest - *first, 0)) : std::nullopt;
}

// Sets a field of the message, unless the value is unset.
template <typename Value>
void SetIf(const std::optional<Value>& value, v1::GpuUse* use, void (v1::GpuUse::*set)(Value)) {
  if (value.has_value()) {
    (use->*set)(*value);
  }
}

}  // namespace

void GpuWatch::Series::Add(const std::optional<double>& value) {
  if (value.has_value()) {
    sum_ += *value;
    ++count_;
    max_ = std::max(max_.value_or(*value), *value);
  }
}

std::optional<double> GpuWatch::Series::mean() const {
  return count_ == 0 ? std::nullopt : std::optional(sum_ / static_cast<double>(count_));
}

std::unique_ptr<GpuWatch> GpuWatch::Open(const std::string& id, const std::string& nvml_library) {
  std::unique_ptr<GpuMonitor> monitor = GpuMonitor::Open({id}, nvml_library);
  if (monitor == nullptr) {
    return nullptr;
  }
  auto watch = std::unique_ptr<GpuWatch>(new GpuWatch(std::move(monitor)));
  watch->Update();
  watch->first_ = watch->newest_;
  return watch;
}

void GpuWatch::Update() {
  const std::vector<GpuReadings> gpus = monitor_->Read();
  newest_ = gpus.empty() ? GpuReadings() : gpus.front();
  power_.Add(newest_.power_watts);
  utilization_.Add(newest_.utilization);
  temperature_.Add(newest_.temperature_celsius);
  sm_clock_.Add(newest_.sm_clock_hertz);
}

v1::GpuUse GpuWatch::Use(int64_t reserved_bytes) const {
  v1::GpuUse use;
  SetIf(power_.mean(), &use, &v1::GpuUse::set_mean_power_watts);
  SetIf(utilization_.mean(), &use, &v1::GpuUse::set_mean_utilization);
  SetIf(temperature_.max(), &use, &v1::GpuUse::set_max_temperature_celsius);
  SetIf(sm_clock_.mean(), &use, &v1::GpuUse::set_mean_sm_clock_hertz);
  SetIf(Added(first_.ecc_errors_corrected, newest_.ecc_errors_corrected), &use, &v1::GpuUse::set_ecc_errors_corrected);
  SetIf(Added(first_.ecc_errors_uncorrected, newest_.ecc_errors_uncorrected), &use,
        &v1::GpuUse::set_ecc_errors_uncorrected);
  use.mutable_xid_errors()->insert(newest_.num_xid_errors.begin(), newest_.num_xid_errors.end());
  if (newest_.own_memory_bytes.has_value()) {
    use.set_context_bytes(std::max<int64_t>(*newest_.own_memory_bytes - reserved_bytes, 0));
    if (newest_.memory_used_bytes.has_value()) {
      use.set_others_bytes(std::max<int64_t>(*newest_.memory_used_bytes - *newest_.own_memory_bytes, 0));
    }
  }
  return use;
}

}  // namespace ampd::device
