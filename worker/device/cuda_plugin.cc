#include "worker/device/cuda_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::device {
namespace {

absl::Status DeviceError(const std::string& message) {
  return Error(absl::StatusCode::kFailedPrecondition, "DEVICE_ERROR", message);
}

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

template <typename Function>
Function* Find(void* library, const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(library, symbol));
}

// A CUDA version as text: "13.0" for 13000.
std::string VersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

// Initializes the CUDA driver, checks that there is a device, and returns the CUDA version that the driver supports.
// The functions of the driver have the same declarations here as in cuda.h.
absl::StatusOr<int> StartDriver(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return DeviceError(absl::StrCat("this host has no CUDA driver: ", LoaderError()));
  }
  auto* const init = Find<int(unsigned)>(library, "cuInit");
  auto* const count = Find<int(int*)>(library, "cuDeviceGetCount");
  auto* const version = Find<int(int*)>(library, "cuDriverGetVersion");
  if (init == nullptr || count == nullptr || version == nullptr) {
    return DeviceError(absl::StrCat(path, " is no CUDA driver: it lacks cuInit"));
  }
  if (const int error = init(0); error != 0) {
    return DeviceError(absl::StrCat("the CUDA driver does not start: cuInit returns ", error));
  }
  int num_devices = 0;
  int driver_version = 0;
  if (count(&num_devices) != 0 || num_devices == 0) {
    return DeviceError("the CUDA driver shows no device to this process");
  }
  return version(&driver_version) == 0 ? driver_version : 0;
}

}  // namespace

std::string BesideThisProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

absl::StatusOr<const kernels::CudaKernels*> OpenCudaKernels(const CudaLibraries& libraries) {
  AMPD_ASSIGN_OR_RETURN(const int driver_version, StartDriver(libraries.driver));
  const std::string path = libraries.plugin.empty() ? BesideThisProgram("libampd_cuda.so") : libraries.plugin;
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return DeviceError(absl::StrCat("the CUDA kernels can't be loaded: ", LoaderError()));
  }
  auto* const table = Find<AmpdCudaKernelsFunction>(library, kernels::kCudaKernelsSymbol);
  if (table == nullptr) {
    return DeviceError(absl::StrCat(path, " lacks ", kernels::kCudaKernelsSymbol));
  }
  const kernels::CudaKernels* const found = table();
  if (found->version != kernels::kCudaKernelsVersion) {
    return DeviceError(absl::StrCat(path, " has version ", found->version, " and this program needs ",
                                    kernels::kCudaKernelsVersion, "; install both from one build"));
  }
  if (driver_version / 1000 < found->runtime_version / 1000) {
    return DeviceError(absl::StrCat("the driver is for CUDA ", VersionText(driver_version), " and ", path,
                                    " needs one for CUDA ", VersionText(found->runtime_version)));
  }
  return found;
}

}  // namespace ampd::device
