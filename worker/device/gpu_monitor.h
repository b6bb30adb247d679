#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace ampd::device {

// Readings of one GPU from NVML. A value that the GPU or its driver does not provide is unset.
struct GpuReadings {
  std::string id;  // the device id, such as "gpu0"
  std::string uuid;
  std::string name;
  std::optional<int64_t> memory_total_bytes;
  std::optional<int64_t> memory_used_bytes;  // used by all processes
  // GPU memory of this process. Also unset if the driver knows this process by another process id, as it may in a
  // container with its own PID namespace.
  std::optional<int64_t> own_memory_bytes;
  std::optional<double> utilization;  // share of the last sample period in which a kernel ran, 0 to 1
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> sm_clock_hertz;
  std::optional<double> memory_clock_hertz;
  std::optional<double> energy_joules;  // energy used since the driver was loaded
  // Numbers of errors of the GPU's memory since the driver was loaded. An uncorrected error ends the processes that
  // read the damaged memory.
  std::optional<int64_t> ecc_errors_corrected;
  std::optional<int64_t> ecc_errors_uncorrected;
  std::map<int64_t, int64_t> num_xid_errors = {};  // faults since the monitor was opened, by Xid (the kind of fault)
};

// Reads the state of this host's GPUs from NVML, for metrics. Root is not needed. Thread-safe.
class GpuMonitor {
 public:
  // Finds the GPUs whose device ids are in `only`; an empty `only` means all GPUs. Returns null if NVML is missing or
  // no GPU is found.
  static std::unique_ptr<GpuMonitor> Open(const std::vector<std::string>& only = {},
                                          const std::string& nvml_library = "libnvidia-ml.so.1");
  ~GpuMonitor();

  const std::string& driver_version() const { return driver_version_; }

  // Reads every GPU, which takes milliseconds. If a GPU can't be queried any more, its readings have only its id, uuid
  // and name.
  std::vector<GpuReadings> Read() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Nvml;
  explicit GpuMonitor(std::unique_ptr<Nvml> nvml);

  std::string driver_version_;
  absl::Mutex mutex_;
  std::unique_ptr<Nvml> nvml_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::device
