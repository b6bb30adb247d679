#include "worker/device/devices.h"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/io/control_group.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/device/nvml_library.h"
#include "worker/device/visible_gpus.h"

namespace ampd::device {
namespace {

constexpr int64_t kMaxProcFileBytes = 8 << 20;
constexpr const char* kInstructionSets[] = {"avx",         "avx2",        "fma",      "f16c",     "avx512f", "avx512bw",
                                            "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "amx_int8"};
constexpr unsigned kNvmlTextBytes = 96;
constexpr size_t kMaxNameBytes = 256;  // The server accepts no longer names.

std::string ReadProc(const std::string& folder, const char* name) {
  return ReadFile(absl::StrCat(folder, "/", name), kMaxProcFileBytes).value_or("");
}

// The value of `field` in the text of /proc/cpuinfo or /proc/meminfo, such as "Intel ..." for "model name : Intel ...".
std::string FieldIn(const std::string& text, const std::string& field) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == field) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return "";
}

// Returns the number of CPUs that this process may run on, or fewer if its control groups limit its CPU time.
int NumUsableCpus(const ControlGroupLimits& limits) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int num_cpus = sched_getaffinity(0, sizeof(set), &set) == 0
                           ? CPU_COUNT(&set)
                           : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<int>(std::min<int64_t>(num_cpus, limits.num_cpus.value_or(num_cpus)));
}

v1::Device Cpu(const Devices::Options& options) {
  const std::string cpuinfo = ReadProc(options.proc_folder, "cpuinfo");
  const int64_t memory_bytes = MemoryFieldIn(ReadProc(options.proc_folder, "meminfo"), "MemTotal");
  const ControlGroupLimits limits = ReadControlGroupLimits(options.control_group_root);
  v1::Device cpu;
  cpu.set_id("cpu");
  cpu.set_kind(v1::Device::CPU);
  cpu.set_name(Shortened(ValidUtf8(FieldIn(cpuinfo, "model name")), kMaxNameBytes));  // A hypervisor may set any name.
  for (const std::string& set : InstructionSetsIn(cpuinfo)) {
    cpu.add_instruction_sets(set);
  }
  cpu.set_memory_total_bytes(std::min(memory_bytes, limits.memory_bytes.value_or(memory_bytes)));
  cpu.set_num_threads(options.num_threads > 0 ? options.num_threads : NumUsableCpus(limits));
  return cpu;
}

}  // namespace

// The functions of NVML that Devices calls, with their types from nvml.h, and the GPUs that were found.
struct Devices::Nvml {
  struct Memory {
    unsigned long long total, free, used;
  };
  using Handle = NvmlLibrary::Gpu;
  struct Gpu {
    Handle handle = nullptr;
    std::string trouble;  // why this GPU could not be identified; empty if it was
  };

  std::unique_ptr<NvmlLibrary> library;
  int (*count)(unsigned*) = nullptr;
  int (*handle_by_index)(unsigned, Handle*) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*capability)(Handle, int*, int*) = nullptr;
  int (*memory)(Handle, Memory*) = nullptr;
  std::vector<Gpu> gpus;  // by GPU number

  // Loads NVML from `path` and lists the GPUs. Returns false if NVML is missing or can't be used.
  bool Open(const std::string& path) {
    library = NvmlLibrary::Load(path);
    unsigned num_gpus = 0;
    if (library == nullptr || !library->Find("nvmlDeviceGetCount_v2", &count) ||
        !library->Find("nvmlDeviceGetHandleByIndex_v2", &handle_by_index) ||
        !library->Find("nvmlDeviceGetName", &name) || !library->Find("nvmlDeviceGetUUID", &uuid) ||
        !library->Find("nvmlDeviceGetCudaComputeCapability", &capability) ||
        !library->Find("nvmlDeviceGetMemoryInfo", &memory) || !library->Start() || count(&num_gpus) != 0) {
      return false;
    }
    for (unsigned i = 0; i < num_gpus; ++i) {
      Gpu& gpu = gpus.emplace_back();
      gpu.trouble = Trouble("nvmlDeviceGetHandleByIndex", handle_by_index(i, &gpu.handle));
    }
    return true;
  }

  std::string Trouble(const char* call, int result) const { return library->ErrorText(call, result); }

  // Reads the GPU's constant properties. Returns the error text of the first call that fails, or "".
  std::string Identify(Handle handle, v1::Device* device) const {
    char text[kNvmlTextBytes] = {};
    if (const int result = name(handle, text, sizeof(text)); result != 0) {
      return Trouble("nvmlDeviceGetName", result);
    }
    device->set_name(ValidUtf8(text));
    if (const int result = uuid(handle, text, sizeof(text)); result != 0) {
      return Trouble("nvmlDeviceGetUUID", result);
    }
    device->set_uuid(ValidUtf8(text));
    int major = 0;
    int minor = 0;
    if (const int result = capability(handle, &major, &minor); result != 0) {
      return Trouble("nvmlDeviceGetCudaComputeCapability", result);
    }
    device->set_capability_major(major);
    device->set_capability_minor(minor);
    return "";
  }

  v1::Device Describe(int number) {
    v1::Device device;
    device.set_id(absl::StrCat("gpu", number));
    device.set_kind(v1::Device::GPU);
    Gpu& gpu = gpus[number];
    if (gpu.trouble.empty()) {
      gpu.trouble = Identify(gpu.handle, &device);
    }
    return device;
  }

  void Refresh(int number, v1::Device* device) const {
    const Gpu& gpu = gpus[number];
    Memory bytes = {};
    const std::string trouble =
        gpu.trouble.empty() ? Trouble("nvmlDeviceGetMemoryInfo", memory(gpu.handle, &bytes)) : gpu.trouble;
    device->set_unhealthy(!trouble.empty());
    device->set_unhealthy_reason(trouble);
    device->set_memory_total_bytes(trouble.empty() ? static_cast<int64_t>(bytes.total) : 0);
    device->set_memory_free_bytes(trouble.empty() ? static_cast<int64_t>(bytes.free) : 0);
  }
};

Devices::Devices() = default;
Devices::~Devices() = default;
Devices::Devices(Devices&&) noexcept = default;

namespace {

// Returns those of `all` that CUDA_VISIBLE_DEVICES leaves: the CPU, which is the first, and the visible GPUs.
absl::StatusOr<std::vector<v1::Device>> WithoutHidden(const std::string& visible_gpus,
                                                      const std::vector<v1::Device>& all) {
  std::vector<std::string> uuids;
  for (size_t i = 1; i < all.size(); ++i) {
    uuids.push_back(all[i].uuid());
  }
  AMPD_ASSIGN_OR_RETURN(const std::vector<size_t> numbers, VisibleGpus(visible_gpus, uuids));
  std::vector<v1::Device> left = {all.front()};
  for (const size_t number : numbers) {
    left.push_back(all[number + 1]);
  }
  return left;
}

}  // namespace

absl::StatusOr<Devices> Devices::Discover(const Options& options) {
  Devices found;
  found.options_ = options;
  auto nvml = std::make_unique<Nvml>();
  std::vector<v1::Device> all = {Cpu(options)};
  if (nvml->Open(options.nvml_library)) {
    for (size_t i = 0; i < nvml->gpus.size(); ++i) {
      all.push_back(nvml->Describe(static_cast<int>(i)));
    }
    found.nvml_ = std::move(nvml);
  }
  if (options.only.empty() && options.visible_gpus.has_value() && all.size() > 1) {
    AMPD_ASSIGN_OR_RETURN(std::vector<v1::Device> left, WithoutHidden(*options.visible_gpus, all));
    found.num_hidden_ = all.size() - left.size();
    all = std::move(left);
  }
  for (const std::string& id : options.only) {
    if (std::none_of(all.begin(), all.end(), [&](const v1::Device& device) { return device.id() == id; })) {
      const std::string there = absl::StrJoin(
          all, ", ", [](std::string* out, const v1::Device& device) { absl::StrAppend(out, device.id()); });
      return Error(absl::StatusCode::kNotFound, "NO_SUCH_DEVICE",
                   absl::StrCat("there is no device '", id, "' here; there is ", there));
    }
  }
  for (v1::Device& device : all) {
    const bool wanted =
        options.only.empty() || std::find(options.only.begin(), options.only.end(), device.id()) != options.only.end();
    if (wanted) {
      found.devices_.push_back(std::move(device));
    }
  }
  return found;
}

std::vector<std::string> Devices::ids() const {
  std::vector<std::string> ids;
  for (const v1::Device& device : devices_) {
    ids.push_back(device.id());
  }
  return ids;
}

v1::Device Devices::Read(size_t position) {
  v1::Device& device = devices_[position];
  int number = 0;
  if (device.kind() == v1::Device::CPU) {
    const int64_t free_bytes = MemoryFieldIn(ReadProc(options_.proc_folder, "meminfo"), "MemAvailable");
    const ControlGroupLimits limits = ReadControlGroupLimits(options_.control_group_root);
    device.set_memory_free_bytes(std::min(free_bytes, limits.memory_free_bytes.value_or(free_bytes)));
  } else if (nvml_ != nullptr && absl::SimpleAtoi(absl::StripPrefix(device.id(), "gpu"), &number)) {
    nvml_->Refresh(number, &device);
  }
  return device;
}

std::vector<v1::Device> Devices::Current() {
  std::vector<v1::Device> current;
  for (size_t i = 0; i < devices_.size(); ++i) {
    current.push_back(Read(i));
  }
  return current;
}

std::vector<std::string> InstructionSetsIn(const std::string& cpuinfo) {
  const std::string flags = FieldIn(cpuinfo, "flags");
  const std::set<std::string> present = absl::StrSplit(flags, ' ', absl::SkipEmpty());
  std::vector<std::string> sets;
  for (const char* set : kInstructionSets) {
    if (present.count(set) > 0) {
      sets.push_back(set);
    }
  }
  return sets;
}

int64_t MemoryFieldIn(const std::string& meminfo, const std::string& field) {
  int64_t kib = 0;
  const std::string value = FieldIn(meminfo, field);
  return absl::SimpleAtoi(absl::StripSuffix(value, " kB"), &kib) ? kib * 1024 : 0;
}

}  // namespace ampd::device
