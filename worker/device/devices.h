#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"

namespace ampd::device {

// The devices of a host that can compute. GPUs are found through NVML, opened at run time; without the library there
// are no GPUs. The CPU is always there, as "cpu", with its instruction sets. Thread-compatible.
class Devices {
 public:
  struct Options {
    int num_threads = 0;            // threads of the CPU device; 0: as many as the process may run on
    std::vector<std::string> only;  // device ids; empty: all
    std::string nvml_library = "libnvidia-ml.so.1";
    std::string proc_folder = "/proc";
  };
  // NOT_FOUND if `only` names a device that does not exist; the message lists those that do.
  static absl::StatusOr<Devices> Discover(const Options& options);
  ~Devices();
  Devices(Devices&&) noexcept;

  // The devices with their current memory. A GPU that NVML can't query is unhealthy, with NVML's error as the reason,
  // and shows no memory. It recovers when NVML reports its memory again; a GPU that could not be identified stays
  // unhealthy.
  std::vector<v1::Device> Current();

 private:
  struct Nvml;
  Devices();

  Options options_;
  std::vector<v1::Device> devices_;
  std::unique_ptr<Nvml> nvml_;
};

// The instruction sets in a /proc/cpuinfo that matter for training, in a fixed order.
std::vector<std::string> InstructionSetsIn(const std::string& cpuinfo);

// The value of `field` in a /proc/meminfo, in bytes; 0 if the field is missing.
int64_t MemoryFieldIn(const std::string& meminfo, const std::string& field);

}  // namespace ampd::device
