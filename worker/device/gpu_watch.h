#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ampd/v1/job.pb.h"
#include "worker/device/gpu_monitor.h"

namespace ampd::device {

// Collects the readings of one GPU while an attempt runs on it, for a summary. Single-threaded; owner: the attempt's
// loop.
class GpuWatch {
 public:
  // Starts to watch the GPU with the device id `id`, such as "gpu0". Returns null if NVML or this GPU is missing.
  static std::unique_ptr<GpuWatch> Open(const std::string& id, const std::string& nvml_library = "libnvidia-ml.so.1");

  // Reads the GPU, which takes milliseconds.
  void Update();

  // The readings of the last update.
  const GpuReadings& newest() const { return newest_; }

  // Returns a summary of all updates: means, maxima, and numbers of new errors. `reserved_bytes`: the GPU memory that
  // this process's allocator holds.
  v1::GpuUse Use(int64_t reserved_bytes) const;

 private:
  class Series {
   public:
    void Add(const std::optional<double>& value);
    std::optional<double> mean() const;
    std::optional<double> max() const { return max_; }

   private:
    double sum_ = 0;
    int64_t count_ = 0;
    std::optional<double> max_;
  };

  explicit GpuWatch(std::unique_ptr<GpuMonitor> monitor) : monitor_(std::move(monitor)) {}

  std::unique_ptr<GpuMonitor> monitor_;
  GpuReadings first_;
  GpuReadings newest_;
  Series power_, utilization_, temperature_, sm_clock_;
};

}  // namespace ampd::device
