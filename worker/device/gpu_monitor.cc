#include "worker/device/gpu_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/device/nvml_library.h"

namespace ampd::device {
namespace {

using Handle = NvmlLibrary::Gpu;

// Constants and structures of nvml.h.
constexpr unsigned kTextBytes = 96;
constexpr int kTemperatureOfGpu = 0;
constexpr int kClockOfSms = 1;
constexpr int kClockOfMemory = 2;
constexpr int kEccCorrected = 0;
constexpr int kEccUncorrected = 1;
constexpr int kEccSinceDriverLoaded = 0;
constexpr unsigned long long kXidEvent = 8;
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned kMostProcesses = 256;
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct EventData {
  Handle gpu;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

// A function of NVML, or nothing if the driver is too old to have this function.
template <typename... Arguments>
class MaybeFunction {
 public:
  MaybeFunction(const NvmlLibrary& nvml, const char* name) { nvml.Find(name, &function_); }
  // Calls the function. Returns false if it is missing or fails.
  bool operator()(Arguments... arguments) const { return function_ != nullptr && function_(arguments...) == 0; }

 private:
  int (*function_)(Arguments...) = nullptr;
};

}  // namespace

// The functions of NVML that GpuMonitor calls, with their types from nvml.h, and the GPUs.
struct GpuMonitor::Nvml {
  struct Gpu {
    Handle handle;
    GpuReadings constant;  // the readings that never change: id, uuid and name
    std::map<int64_t, int64_t> num_xid_errors;
  };

  explicit Nvml(std::unique_ptr<NvmlLibrary> loaded) : library(std::move(loaded)) {}
  ~Nvml() {
    if (xid_events != nullptr) {
      event_set_free(xid_events);
    }
  }

  void FindGpus(const std::vector<std::string>& only);
  void SubscribeToXidErrors();
  void CountXidErrors();
  GpuReadings Read(const Gpu& gpu) const;

  // Calls a function that reads an unsigned number, and multiplies the number by `unit`. Unset if the call fails.
  static std::optional<double> Scaled(const MaybeFunction<Handle, unsigned*>& function, Handle gpu, double unit) {
    unsigned value = 0;
    return function(gpu, &value) ? std::optional(unit * value) : std::nullopt;
  }
  static std::optional<double> Scaled(const MaybeFunction<Handle, int, unsigned*>& function, Handle gpu, int which,
                                      double unit) {
    unsigned value = 0;
    return function(gpu, which, &value) ? std::optional(unit * value) : std::nullopt;
  }
  std::optional<int64_t> OwnMemory(Handle gpu) const;
  std::optional<int64_t> EccErrors(Handle gpu, int kind) const {
    unsigned long long count = 0;
    return ecc_errors(gpu, kind, kEccSinceDriverLoaded, &count) ? std::optional(static_cast<int64_t>(count))
                                                                : std::nullopt;
  }

  const std::unique_ptr<NvmlLibrary> library;
  const MaybeFunction<unsigned*> count{*library, "nvmlDeviceGetCount_v2"};
  const MaybeFunction<unsigned, Handle*> handle_by_index{*library, "nvmlDeviceGetHandleByIndex_v2"};
  const MaybeFunction<char*, unsigned> driver_version{*library, "nvmlSystemGetDriverVersion"};
  const MaybeFunction<Handle, char*, unsigned> name{*library, "nvmlDeviceGetName"};
  const MaybeFunction<Handle, char*, unsigned> uuid{*library, "nvmlDeviceGetUUID"};
  const MaybeFunction<Handle, MemoryInfo*> memory{*library, "nvmlDeviceGetMemoryInfo"};
  const MaybeFunction<Handle, unsigned*, ProcessInfo*> processes{*library, "nvmlDeviceGetComputeRunningProcesses_v3"};
  const MaybeFunction<Handle, Utilization*> utilization{*library, "nvmlDeviceGetUtilizationRates"};
  const MaybeFunction<Handle, int, unsigned*> temperature{*library, "nvmlDeviceGetTemperature"};
  const MaybeFunction<Handle, unsigned*> power{*library, "nvmlDeviceGetPowerUsage"};
  const MaybeFunction<Handle, unsigned*> power_limit{*library, "nvmlDeviceGetEnforcedPowerLimit"};
  const MaybeFunction<Handle, int, unsigned*> clock{*library, "nvmlDeviceGetClockInfo"};
  const MaybeFunction<Handle, unsigned long long*> energy{*library, "nvmlDeviceGetTotalEnergyConsumption"};
  const MaybeFunction<Handle, int, int, unsigned long long*> ecc_errors{*library, "nvmlDeviceGetTotalEccErrors"};
  const MaybeFunction<void**> event_set_create{*library, "nvmlEventSetCreate"};
  const MaybeFunction<void*> event_set_free{*library, "nvmlEventSetFree"};
  const MaybeFunction<Handle, unsigned long long, void*> register_events{*library, "nvmlDeviceRegisterEvents"};
  const MaybeFunction<void*, EventData*, unsigned> wait_for_event{*library, "nvmlEventSetWait_v2"};

  std::vector<Gpu> gpus;
  void* xid_events = nullptr;  // the set of events to wait for; null: Xid errors can't be counted
};

void GpuMonitor::Nvml::FindGpus(const std::vector<std::string>& only) {
  unsigned num_gpus = 0;
  count(&num_gpus);
  for (unsigned i = 0; i < num_gpus; ++i) {
    Gpu gpu = {.handle = nullptr, .constant = {.id = absl::StrCat("gpu", i)}, .num_xid_errors = {}};
    const bool is_wanted = only.empty() || std::find(only.begin(), only.end(), gpu.constant.id) != only.end();
    char text[kTextBytes] = {};
    if (!is_wanted || !handle_by_index(i, &gpu.handle) || !uuid(gpu.handle, text, sizeof(text))) {
      continue;
    }
    gpu.constant.uuid = text;
    gpu.constant.name = name(gpu.handle, text, sizeof(text)) ? text : "";
    gpus.push_back(std::move(gpu));
  }
}

void GpuMonitor::Nvml::SubscribeToXidErrors() {
  if (!event_set_create(&xid_events)) {
    xid_events = nullptr;
    return;
  }
  for (const Gpu& gpu : gpus) {
    register_events(gpu.handle, kXidEvent, xid_events);
  }
}

void GpuMonitor::Nvml::CountXidErrors() {
  EventData event = {};
  // Limits the events per call, because a broken GPU could report errors without end.
  constexpr int kMostEvents = 1000;
  for (int i = 0; i < kMostEvents && xid_events != nullptr && wait_for_event(xid_events, &event, /*timeout_ms=*/0);
       ++i) {
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& one) { return one.handle == event.gpu; });
    if (gpu != gpus.end() && event.type == kXidEvent) {
      ++gpu->num_xid_errors[static_cast<int64_t>(event.data)];
    }
  }
}

std::optional<int64_t> GpuMonitor::Nvml::OwnMemory(Handle gpu) const {
  constexpr unsigned long long kNotKnown = ~0ull;
  std::array<ProcessInfo, kMostProcesses> infos = {};
  unsigned count_of_processes = kMostProcesses;
  if (!processes(gpu, &count_of_processes, infos.data())) {
    return std::nullopt;
  }
  const ProcessInfo* const begin = infos.data();
  const ProcessInfo* const end = begin + std::min(count_of_processes, kMostProcesses);
  const ProcessInfo* const own =
      std::find_if(begin, end, [](const ProcessInfo& info) { return info.pid == static_cast<unsigned>(getpid()); });
  return own == end || own->used_bytes == kNotKnown ? std::nullopt
                                                    : std::optional(static_cast<int64_t>(own->used_bytes));
}

GpuReadings GpuMonitor::Nvml::Read(const Gpu& gpu) const {
  constexpr double kMilli = 1e-3, kMega = 1e6;
  GpuReadings readings = gpu.constant;
  if (MemoryInfo bytes = {}; memory(gpu.handle, &bytes)) {
    readings.memory_total_bytes = static_cast<int64_t>(bytes.total);
    readings.memory_used_bytes = static_cast<int64_t>(bytes.used);
  }
  readings.own_memory_bytes = OwnMemory(gpu.handle);
  if (Utilization percent = {}; utilization(gpu.handle, &percent)) {
    readings.utilization = percent.gpu / 100.0;
  }
  readings.temperature_celsius = Scaled(temperature, gpu.handle, kTemperatureOfGpu, 1);
  readings.power_watts = Scaled(power, gpu.handle, kMilli);
  readings.power_limit_watts = Scaled(power_limit, gpu.handle, kMilli);
  readings.sm_clock_hertz = Scaled(clock, gpu.handle, kClockOfSms, kMega);
  readings.memory_clock_hertz = Scaled(clock, gpu.handle, kClockOfMemory, kMega);
  if (unsigned long long millijoules = 0; energy(gpu.handle, &millijoules)) {
    readings.energy_joules = kMilli * static_cast<double>(millijoules);
  }
  readings.ecc_errors_corrected = EccErrors(gpu.handle, kEccCorrected);
  readings.ecc_errors_uncorrected = EccErrors(gpu.handle, kEccUncorrected);
  readings.num_xid_errors = gpu.num_xid_errors;
  return readings;
}

std::unique_ptr<GpuMonitor> GpuMonitor::Open(const std::vector<std::string>& only, const std::string& nvml_library) {
  std::unique_ptr<NvmlLibrary> library = NvmlLibrary::Load(nvml_library);
  if (library == nullptr || !library->Start()) {
    return nullptr;
  }
  auto nvml = std::make_unique<Nvml>(std::move(library));
  nvml->FindGpus(only);
  if (nvml->gpus.empty()) {
    return nullptr;
  }
  nvml->SubscribeToXidErrors();
  return std::unique_ptr<GpuMonitor>(new GpuMonitor(std::move(nvml)));
}

GpuMonitor::GpuMonitor(std::unique_ptr<Nvml> nvml) : nvml_(std::move(nvml)) {
  char text[kTextBytes] = {};
  driver_version_ = nvml_->driver_version(text, sizeof(text)) ? text : "";
}

GpuMonitor::~GpuMonitor() = default;

std::vector<GpuReadings> GpuMonitor::Read() {
  const absl::MutexLock lock(&mutex_);
  nvml_->CountXidErrors();
  std::vector<GpuReadings> all;
  for (const Nvml::Gpu& gpu : nvml_->gpus) {
    all.push_back(nvml_->Read(gpu));
  }
  return all;
}

}  // namespace ampd::device
