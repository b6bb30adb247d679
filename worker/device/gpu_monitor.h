#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace ampd::device {

// What one GPU reports of itself. A value that the GPU or its driver does not have is unset.
struct GpuReadings {
  std::string id;  // "gpu0", the device id
  std::string uuid;
  std::string name;
  std::optional<int64_t> memory_total_bytes;
  std::optional<int64_t> memory_used_bytes;  // by all processes
  // By this process. Unset also if the driver numbers processes otherwise than this process's container.
  std::optional<int64_t> own_memory_bytes;
  std::optional<double> utilization;  // share of the last sample period in which a kernel ran, 0 to 1
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> sm_clock_hertz;
  std::optional<double> memory_clock_hertz;
  std::optional<double> energy_joules;  // since the driver was loaded
  // Errors of the GPU's memory since the driver was loaded. An uncorrected one ends the processes that read it.
  std::optional<int64_t> ecc_errors_corrected;
  std::optional<int64_t> ecc_errors_uncorrected;
  std::map<int64_t, int64_t> num_xid_errors = {};  // by Xid, the number of the fault, since the monitor was opened
};

// Reads the state of this host's GPUs from NVML, for metrics. A process that is not root may read all of it.
// Thread-safe.
class GpuMonitor {
 public:
  // Finds the GPUs; of them, those whose device id is in `only`, or all if it is empty. Null if there is no NVML, or no
  // GPU.
  static std::unique_ptr<GpuMonitor> Open(const std::vector<std::string>& only = {},
                                          const std::string& nvml_library = "libnvidia-ml.so.1");
  ~GpuMonitor();

  const std::string& driver_version() const { return driver_version_; }

  // Reads every GPU, which takes milliseconds. A GPU that can't be queried any more has only its id, uuid and name.
  std::vector<GpuReadings> Read() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Nvml;
  explicit GpuMonitor(std::unique_ptr<Nvml> nvml);

  std::string driver_version_;
  absl::Mutex mutex_;
  std::unique_ptr<Nvml> nvml_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::device
