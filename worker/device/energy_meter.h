#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::device {

// Measures the energy that the CPUs of this host use, or one GPU, by the counters that they keep themselves. It
// includes what other processes use. Copies measure the same. Thread-compatible.
class EnergyMeter {
 public:
  // Measures the CPUs by RAPL, which Linux shows in /sys/class/powercap: whole CPU packages, without the memory of most
  // hosts. Starts at 0 joules. NOT_FOUND if the host has no counters; PERMISSION_DENIED if this process may not read
  // them, which on most systems only root may.
  //
  // A counter starts over at its end, which it reaches after some minutes at full load. Update() has to be called at
  // least once in that time, or energy is missed.
  static absl::StatusOr<EnergyMeter> OpenCpus(const std::string& folder = "/sys/class/powercap");

  // Measures a whole GPU with its memory, by NVML. Starts at 0 joules. NOT_FOUND if NVML, the GPU or its counter is
  // missing; GPUs older than Volta have none.
  static absl::StatusOr<EnergyMeter> OpenGpu(const std::string& uuid,
                                             const std::string& nvml_library = "libnvidia-ml.so.1");

  // Adds the energy since the last call. If a counter can't be read, or has fallen, the sum is unknown from then on.
  void Update();

  // The energy up to the last call of Update(). Unset if it is not known.
  std::optional<double> joules() const { return is_known_ ? std::optional(joules_) : std::nullopt; }

 private:
  struct Counter {
    std::function<absl::StatusOr<int64_t>()> read_microjoules;
    int64_t end_microjoules = 0;  // The counter starts over after this value; 0: it never does.
    int64_t last_microjoules = 0;
  };

  explicit EnergyMeter(std::vector<Counter> counters) : counters_(std::move(counters)) {}

  std::vector<Counter> counters_;
  double joules_ = 0;
  bool is_known_ = true;
};

}  // namespace ampd::device
