#include "worker/train/device/cuda_graphs.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "worker/device/cuda_plugin.h"
#include "worker/train/device/device_error.h"

namespace ampd::train {
absl::StatusOr<const amp::StepGraphs*> OpenStepGraphs(const std::string& path) {
  const std::string where = path.empty() ? device::BesideThisProgram("libampd_cuda_graph.so") : path;
  void* const library = dlopen(where.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* text = dlerror();
    return DeviceError(absl::StrCat("CUDA graphs can't be loaded: ", text == nullptr ? "?" : text));
  }
  auto* const graphs = reinterpret_cast<AmpdStepGraphsFunction*>(dlsym(library, amp::kStepGraphsSymbol));
  if (graphs == nullptr) {
    return DeviceError(absl::StrCat(where, " lacks ", amp::kStepGraphsSymbol));
  }
  const amp::StepGraphs* const found = graphs();
  if (found->version != amp::kStepGraphsVersion) {
    return DeviceError(absl::StrCat(where, " has version ", found->version, " and this program needs ",
                                    amp::kStepGraphsVersion, "; install both from one build"));
  }
  return found;
}

}  // namespace ampd::train
