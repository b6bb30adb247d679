#include "worker/device/nvml_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace ampd::device {

std::unique_ptr<NvmlLibrary> NvmlLibrary::Load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : std::unique_ptr<NvmlLibrary>(new NvmlLibrary(library));
}

NvmlLibrary::~NvmlLibrary() {
  int (*shutdown)() = nullptr;
  if (is_started_ && Find("nvmlShutdown", &shutdown)) {
    shutdown();
  }
  dlclose(library_);
}

bool NvmlLibrary::Start() {
  int (*init)() = nullptr;
  is_started_ = Find("nvmlInit_v2", &init) && init() == 0;
  return is_started_;
}

std::string NvmlLibrary::ErrorText(const char* call, int result) const {
  if (result == 0) {
    return "";
  }
  const char* (*text_of)(int) = nullptr;
  return absl::StrCat(call, " returns ", result,
                      Find("nvmlErrorString", &text_of) ? absl::StrCat(": ", text_of(result)) : "");
}

void* NvmlLibrary::Address(const char* name) const { return dlsym(library_, name); }

}  // namespace ampd::device
