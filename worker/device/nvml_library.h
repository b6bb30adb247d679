#pragma once

#include <memory>
#include <string>

namespace ampd::device {

// NVML, the library of NVIDIA's driver that reports the state of GPUs. It is loaded at run time, because hosts without
// GPUs don't have it. This class and the functions of NVML are thread-safe.
class NvmlLibrary {
 public:
  // NVML's handle of a GPU (nvmlDevice_t).
  using Gpu = void*;

  // Loads the library without starting it. Returns null if it is missing.
  static std::unique_ptr<NvmlLibrary> Load(const std::string& path);
  // Shuts NVML down if Start() was called, and unloads the library.
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // Initializes NVML (nvmlInit). Returns false if that fails. Call it before any other function of NVML.
  bool Start();

  // Sets `function` to the library's function with this name; null if the library lacks it. `Function`: its type in
  // nvml.h.
  template <typename Function>
  bool Find(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(Address(name));
    return *function != nullptr;
  }

  // The text of an error, such as "nvmlDeviceGetName returns 15: GPU is lost"; empty for the result 0, success.
  std::string ErrorText(const char* call, int result) const;

 private:
  explicit NvmlLibrary(void* library) : library_(library) {}
  void* Address(const char* name) const;

  void* const library_;
  bool is_started_ = false;
};

}  // namespace ampd::device
