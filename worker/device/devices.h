#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"

namespace ampd::device {

// What a host can compute on. GPUs come from NVML, opened at run time; a host without the library has none. The CPU is
// always there, as "cpu", with its instruction sets. Thread-compatible.
class Devices {
 public:
  struct Options {
    int num_threads = 0;            // of the CPU device; 0: as many as the process may run on
    std::vector<std::string> only;  // device ids; empty: all
    std::string nvml_library = "libnvidia-ml.so.1";
    std::string proc_folder = "/proc";
  };
  // NOT_FOUND when `only` names a device that is not there, naming those that are.
  static absl::StatusOr<Devices> Discover(const Options& options);
  ~Devices();
  Devices(Devices&&) noexcept;

  // The devices with their memory as it is now. A GPU that NVML can't be asked about is unhealthy, for the reason that
  // NVML gives, and has none: until NVML tells its memory again, or for good when it could not be told which GPU it is.
  std::vector<v1::Device> Current();

 private:
  struct Nvml;
  Devices();

  Options options_;
  std::vector<v1::Device> devices_;
  std::unique_ptr<Nvml> nvml_;
};

// The instruction sets in a /proc/cpuinfo that matter to training, in a fixed order.
std::vector<std::string> InstructionSetsIn(const std::string& cpuinfo);

// The value of `field` in a /proc/meminfo, in bytes; 0 when it is not there.
int64_t MemoryFieldIn(const std::string& meminfo, const std::string& field);

}  // namespace ampd::device
