#include "worker/train/device/compute_device.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdint>

#include "ATen/Context.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "c10/core/CachingDeviceAllocator.h"
#include "worker/train/device/counting_allocator.h"
#include "worker/train/device/cuda_graphs.h"
#include "worker/train/device/device_error.h"

namespace ampd::train {
namespace {

constexpr int kOnlyGpu = 0;

// Makes only this GPU visible to CUDA. `number` is NVML's number of the GPU. NVML numbers GPUs by their place on the
// bus, so CUDA_DEVICE_ORDER makes CUDA do the same.
void ShowOnly(int number) {
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/1);
  setenv("CUDA_VISIBLE_DEVICES", std::to_string(number).c_str(), /*overwrite=*/1);
  // A fixed workspace makes cuBLAS deterministic. It takes 32 MiB, which precision/cost/memory.cc counts.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

// Loads LibTorch's CUDA part. The trainer links only the CPU part, so that it runs on hosts without CUDA. The CUDA part
// is opened with RTLD_GLOBAL, because libampd_cuda_graph.so, which is opened later, needs its symbols.
absl::Status LoadLibTorchCuda() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* text = dlerror();
    return DeviceError(absl::StrCat("LibTorch's CUDA part can't be loaded: ", text == nullptr ? "?" : text,
                                    "; scripts/setup installs it on hosts with a driver"));
  }
  at::Context& context = at::globalContext();
  if (!context.hasCUDA()) {
    return DeviceError("LibTorch finds no CUDA device");
  }
  context.lazyInitDevice(c10::DeviceType::CUDA);
  return absl::OkStatus();
}

// The UUID as text in NVML's format: "GPU-5ae67c3f-...".
std::string UuidText(const uint8_t (&uuid)[16]) {
  const std::string hex = absl::BytesToHexString({reinterpret_cast<const char*>(uuid), sizeof(uuid)});
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

absl::StatusOr<kernels::CudaDevice> Describe(const amp::ComputeDevice& opened) {
  kernels::CudaDevice device;
  if (const int error = opened.cuda_kernels->describe_device(kOnlyGpu, &device); error != 0) {
    return DeviceError(absl::StrCat("can't read the properties of the GPU: ", opened.cuda_kernels->error_text(error)));
  }
  return device;
}

}  // namespace

absl::StatusOr<amp::ComputeDevice> OpenComputeDevice(const std::string& id, const device::CudaLibraries& libraries) {
  if (id.empty() || id == "cpu") {
    return amp::ComputeDevice();
  }
  int number = 0;
  if (!absl::StartsWith(id, "gpu") || !absl::SimpleAtoi(absl::StripPrefix(id, "gpu"), &number) || number < 0) {
    return DeviceError(absl::StrCat("there is no device '", id, "'; it may be cpu, gpu0, gpu1, ..."));
  }
  ShowOnly(number);
  amp::ComputeDevice opened;
  opened.device = c10::Device(c10::DeviceType::CUDA, kOnlyGpu);
  AMPD_ASSIGN_OR_RETURN(opened.cuda_kernels, device::OpenCudaKernels(libraries));
  AMPD_RETURN_IF_ERROR(LoadLibTorchCuda());
  UseAlgorithms(opened, /*deterministic=*/true);
  const absl::StatusOr<const amp::StepGraphs*> graphs = OpenStepGraphs();
  opened.graphs = graphs.ok() ? *graphs : nullptr;
  opened.why_no_graphs = std::string(graphs.status().message());
  return opened;
}

void UseAlgorithms(const amp::ComputeDevice& opened, bool deterministic) {
  const bool only_deterministic = deterministic || !opened.device.is_cuda();
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(only_deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(only_deterministic);
  context.setBenchmarkCuDNN(!only_deterministic);
}

absl::Status CheckPlacedHere(const v1::Device& placed, const amp::ComputeDevice& opened) {
  if ((placed.kind() == v1::Device::GPU) != opened.device.is_cuda()) {
    return DeviceError(
        absl::StrCat("the attempt is placed on ", placed.id(), " and this trainer computes on ", NameOf(opened)));
  }
  if (!opened.device.is_cuda() || placed.uuid().empty()) {
    return absl::OkStatus();
  }
  AMPD_ASSIGN_OR_RETURN(const kernels::CudaDevice device, Describe(opened));
  const std::string uuid = UuidText(device.uuid);
  return uuid == placed.uuid() ? absl::OkStatus()
                               : DeviceError(absl::StrCat("the attempt is placed on ", placed.id(), " (", placed.uuid(),
                                                          ") and CUDA shows ", uuid));
}

std::string NameOf(const amp::ComputeDevice& opened) {
  if (!opened.device.is_cuda()) {
    return "cpu";
  }
  const auto device = Describe(opened);
  return device.ok() ? device->name : "a GPU";
}

DeviceMemory GetMemory(const amp::ComputeDevice& opened) {
  if (!opened.device.is_cuda()) {
    const CpuMemory memory = GetCpuMemory();
    return {.allocated_bytes = memory.allocated_bytes, .peak_bytes = memory.peak_bytes};
  }
  const auto stats = c10::getDeviceAllocator(opened.device.type())->getDeviceStats(opened.device.index());
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated_bytes = stats.allocated_bytes[kAll].current,
          .peak_bytes = stats.allocated_bytes[kAll].peak,
          .reserved_bytes = stats.reserved_bytes[kAll].current,
          .reserved_peak_bytes = stats.reserved_bytes[kAll].peak,
          .num_retries = stats.num_alloc_retries};
}

void ResetPeakMemory(const amp::ComputeDevice& opened) {
  if (opened.device.is_cuda()) {
    c10::getDeviceAllocator(opened.device.type())->resetPeakStats(opened.device.index());
  } else {
    ResetPeakCpuMemory();
  }
}

}  // namespace ampd::train
