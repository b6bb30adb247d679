#pragma once

#include <memory>
#include <string>

namespace ampd::device {

// NVML, the library of NVIDIA's driver that reports on GPUs, loaded at run time: hosts without GPUs don't have it.
// Thread-safe, as are the functions of NVML.
class NvmlLibrary {
 public:
  // A GPU, as NVML's functions take it (nvmlDevice_t).
  using Gpu = void*;

  // Loads the library without starting it. Returns null if it is missing.
  static std::unique_ptr<NvmlLibrary> Load(const std::string& path);
  // Unloads the library, after the counterpart of Start().
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // Starts the library (nvmlInit). Returns whether it works. No other function of NVML may be called before.
  bool Start();

  // Sets `function` to the function of this name, with its type from nvml.h; null if the library lacks it.
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
