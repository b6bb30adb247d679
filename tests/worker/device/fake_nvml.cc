// A fake NVML with the functions that devices.cc calls, with the signatures of nvml.h. If FAKE_WITHOUT_MEMORY is
// defined, the last function is missing.
#include "tests/worker/device/fake_nvml.h"

#include <cstdio>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kInsufficientSize = 7;
constexpr int kGpuIsLost = 15;

struct Gpu {
  unsigned number;
};

}  // namespace

extern "C" {

ampd::device::FakeNvml fake_nvml;

struct nvmlMemory_t {
  unsigned long long total, free, used;
};

static bool Fails(const char* call) { return std::strcmp(call, fake_nvml.failing_call) == 0; }

static bool FailsOf(const Gpu* gpu, const char* call) { return gpu->number == fake_nvml.failing_gpu && Fails(call); }

// Copies a text into the caller's buffer. Like NVML, copies the whole text or nothing.
static int Copy(const char* prefix, const Gpu* gpu, char* text, unsigned length) {
  const int needed = std::snprintf(text, length, "%s%u", prefix, gpu->number);
  return needed < static_cast<int>(length) ? kSuccess : kInsufficientSize;
}

int nvmlInit_v2() {
  if (Fails("nvmlInit_v2")) {
    return kGpuIsLost;
  }
  ++fake_nvml.num_inits;
  return kSuccess;
}

int nvmlShutdown() {
  ++fake_nvml.num_shutdowns;
  return kSuccess;
}

const char* nvmlErrorString(int result) { return result == kGpuIsLost ? "GPU is lost" : "unknown error"; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = fake_nvml.num_gpus;
  return Fails("nvmlDeviceGetCount_v2") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** gpu) {
  static Gpu gpus[8] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  if (index >= fake_nvml.num_gpus) {
    return kInvalidArgument;
  }
  *gpu = &gpus[index];
  return FailsOf(*gpu, "nvmlDeviceGetHandleByIndex") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetName(const Gpu* gpu, char* name, unsigned length) {
  return FailsOf(gpu, "nvmlDeviceGetName") ? kGpuIsLost : Copy("Fake H", gpu, name, length);
}

int nvmlDeviceGetUUID(const Gpu* gpu, char* uuid, unsigned length) {
  return FailsOf(gpu, "nvmlDeviceGetUUID") ? kGpuIsLost
                                           : Copy("GPU-00000000-0000-0000-0000-00000000000", gpu, uuid, length);
}

int nvmlDeviceGetCudaComputeCapability(const Gpu* gpu, int* major, int* minor) {
  *major = 8 + static_cast<int>(gpu->number);
  *minor = 6;
  return FailsOf(gpu, "nvmlDeviceGetCudaComputeCapability") ? kGpuIsLost : kSuccess;
}

#ifndef FAKE_WITHOUT_MEMORY
int nvmlDeviceGetMemoryInfo(const Gpu* gpu, nvmlMemory_t* memory) {
  memory->total = (64ull << 30) << gpu->number;
  memory->used = static_cast<unsigned long long>(fake_nvml.used_bytes);
  memory->free = memory->total - memory->used;
  return FailsOf(gpu, "nvmlDeviceGetMemoryInfo") ? kGpuIsLost : kSuccess;
}
#endif
}
