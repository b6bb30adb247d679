#include "worker/device/energy_meter.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "worker/device/nvml_library.h"

namespace ampd::device {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFileBytes = 4096;
constexpr double kMicrojoules = 1e6;

absl::StatusOr<int64_t> ReadNumber(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  int64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0) {
    return absl::InternalError("an energy counter is not a number");
  }
  return number;
}

// Whether the folder belongs to the counter of a whole CPU package. Other counters count parts of a package, or the
// whole machine, so adding them would count energy twice.
bool IsPackage(const fs::path& folder) {
  const auto name = ReadFile(folder / "name", kMaxFileBytes);
  return absl::StartsWith(folder.filename().string(), "intel-rapl:") && name.ok() && absl::StartsWith(*name, "package");
}

// One GPU and its energy counter in NVML, with the types of nvml.h.
class NvmlGpu {
 public:
  // Returns false if NVML, the GPU or the function is missing.
  bool Open(const std::string& path, const std::string& uuid) {
    library_ = NvmlLibrary::Load(path);
    int (*handle_by_uuid)(const char*, NvmlLibrary::Gpu*) = nullptr;
    return library_ != nullptr && library_->Find("nvmlDeviceGetHandleByUUID", &handle_by_uuid) &&
           library_->Find("nvmlDeviceGetTotalEnergyConsumption", &energy_) && library_->Start() &&
           handle_by_uuid(uuid.c_str(), &gpu_) == 0;
  }

  absl::StatusOr<int64_t> Microjoules() const {
    constexpr int64_t kMicrojoulesPerMillijoule = 1000;
    unsigned long long millijoules = 0;
    if (energy_(gpu_, &millijoules) != 0) {
      return absl::NotFoundError("this GPU's energy can't be read from NVML");
    }
    return static_cast<int64_t>(millijoules) * kMicrojoulesPerMillijoule;
  }

 private:
  std::unique_ptr<NvmlLibrary> library_;
  NvmlLibrary::Gpu gpu_ = nullptr;
  int (*energy_)(NvmlLibrary::Gpu, unsigned long long*) = nullptr;
};

}  // namespace

absl::StatusOr<EnergyMeter> EnergyMeter::OpenCpus(const std::string& folder) {
  std::vector<Counter> counters;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!IsPackage(entry.path())) {
      continue;
    }
    Counter counter = {.read_microjoules = [path = entry.path() / "energy_uj"] { return ReadNumber(path); }};
    AMPD_ASSIGN_OR_RETURN(counter.end_microjoules, ReadNumber(entry.path() / "max_energy_range_uj"));
    AMPD_ASSIGN_OR_RETURN(counter.last_microjoules, counter.read_microjoules());
    counters.push_back(std::move(counter));
  }
  if (counters.empty()) {
    return absl::NotFoundError("this host has no energy counters of its CPUs");
  }
  return EnergyMeter(std::move(counters));
}

absl::StatusOr<EnergyMeter> EnergyMeter::OpenGpu(const std::string& uuid, const std::string& nvml_library) {
  const auto gpu = std::make_shared<NvmlGpu>();
  if (!gpu->Open(nvml_library, uuid)) {
    return absl::NotFoundError("this GPU's energy can't be read from NVML");
  }
  Counter counter = {.read_microjoules = [gpu] { return gpu->Microjoules(); }};
  AMPD_ASSIGN_OR_RETURN(counter.last_microjoules, counter.read_microjoules());
  return EnergyMeter({std::move(counter)});
}

void EnergyMeter::Update() {
  for (Counter& counter : counters_) {
    const auto now = counter.read_microjoules();
    if (!now.ok() || (*now < counter.last_microjoules && counter.end_microjoules == 0)) {
      is_known_ = false;
      return;
    }
    const int64_t since = *now - counter.last_microjoules;
    joules_ += static_cast<double>(since >= 0 ? since : since + counter.end_microjoules) / kMicrojoules;
    counter.last_microjoules = *now;
  }
}

}  // namespace ampd::device
