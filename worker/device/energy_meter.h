#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::device {

// Measures the energy that the CPUs of this host use, or the energy that one GPU uses. Reads the energy counters of the
// hardware, which include the energy of other processes. A copy continues the measurement of the original.
// Thread-compatible.
class EnergyMeter {
 public:
  // Measures the CPUs with RAPL, whose counters Linux shows in /sys/class/powercap. They cover whole CPU packages, and
  // on most hosts not the memory. Starts at 0 joules. NOT_FOUND if the host has no counters; PERMISSION_DENIED if this
  // process may not read the counters; on most systems only root may.
  //
  // A counter wraps around to 0 after some minutes at full load. Call Update() at least once in that time; otherwise
  // energy is not counted.
  static absl::StatusOr<EnergyMeter> OpenCpus(const std::string& folder = "/sys/class/powercap");

  // Measures a whole GPU including its memory, with NVML. Starts at 0 joules. NOT_FOUND if NVML, the GPU or its counter
  // is missing; GPUs older than Volta have no counter.
  static absl::StatusOr<EnergyMeter> OpenGpu(const std::string& uuid,
                                             const std::string& nvml_library = "libnvidia-ml.so.1");

  // Adds the energy since the last call. If a counter can't be read, or has fallen without wrapping around, the sum is
  // unknown from then on.
  void Update();

  // The energy up to the last call of Update(). Unset if the energy is not known.
  std::optional<double> joules() const { return is_known_ ? std::optional(joules_) : std::nullopt; }

 private:
  struct Counter {
    std::function<absl::StatusOr<int64_t>()> read_microjoules;
    int64_t end_microjoules = 0;  // The counter wraps around after this value; 0: it never does.
    int64_t last_microjoules = 0;
  };

  explicit EnergyMeter(std::vector<Counter> counters) : counters_(std::move(counters)) {}

  std::vector<Counter> counters_;
  double joules_ = 0;
  bool is_known_ = true;
};

}  // namespace ampd::device
