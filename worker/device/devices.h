#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"

namespace ampd::device {

// The devices of this host that can train. GPUs are found through NVML, which is loaded at run time; without NVML there
// are no GPUs. The CPU always exists, as the device "cpu", and lists its instruction sets. Its memory is the host's or,
// in a container or service with a smaller limit, that limit. Thread-compatible.
class Devices {
 public:
  struct Options {
    int num_threads = 0;  // threads of the CPU device; 0: one per CPU that the process and its control groups may use
    std::vector<std::string> only;  // ids of the devices to use; empty: all devices
    // The value of the environment variable CUDA_VISIBLE_DEVICES. If it is set and `only` is empty, only the GPUs are
    // used that it makes visible (visible_gpus.h), in its order.
    std::optional<std::string> visible_gpus;
    std::string nvml_library = "libnvidia-ml.so.1";
    std::string proc_folder = "/proc";
    std::string control_group_root;  // see ReadControlGroupLimits
  };
  // Finds the devices. NOT_FOUND if `only` names a device that does not exist; the message lists the devices that
  // exist. INVALID_ARGUMENT if `visible_gpus` names a part of a GPU.
  static absl::StatusOr<Devices> Discover(const Options& options);
  ~Devices();
  Devices(Devices&&) noexcept;

  // The ids of the devices.
  std::vector<std::string> ids() const;
  // The number of GPUs that are not used because of `visible_gpus`.
  size_t num_hidden() const { return num_hidden_; }

  // The device at `position` in ids(), with its current memory. If NVML can't query a GPU, the GPU is unhealthy, with
  // NVML's error as the reason and without memory sizes. The GPU becomes healthy when NVML reports its memory again. A
  // GPU that could not be identified at the start stays unhealthy. REQUIRES: position < ids().size().
  v1::Device Read(size_t position);
  // All devices, each as Read returns it.
  std::vector<v1::Device> Current();

 private:
  struct Nvml;
  Devices();

  Options options_;
  std::vector<v1::Device> devices_;
  size_t num_hidden_ = 0;
  std::unique_ptr<Nvml> nvml_;
};

// The instruction sets that matter for training, in a fixed order, from the text of /proc/cpuinfo.
std::vector<std::string> InstructionSetsIn(const std::string& cpuinfo);

// The value of `field` in the text of /proc/meminfo, in bytes; 0 if the field is missing.
int64_t MemoryFieldIn(const std::string& meminfo, const std::string& field);

}  // namespace ampd::device
