// A fake NVML with the functions that worker/device calls, with the signatures of nvml.h. If FAKE_WITHOUT_MEMORY is
// defined, the last function is missing.
#include "tests/worker/device/fake_nvml.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kInsufficientSize = 7;
constexpr int kTimeout = 10;
constexpr int kGpuIsLost = 15;

struct Gpu {
  unsigned number;
};

}  // namespace

extern "C" {

ampd::device::FakeNvml fake_nvml;

// Lets a test plant a fault while the library runs in another process than the test. The environment variable
// FAKE_NVML_XID_FILE names a file. Once this file exists, plants the Xid error whose number is in the file.
static void PlantFault() {
  static bool is_planted = false;
  const char* const path = std::getenv("FAKE_NVML_XID_FILE");
  std::FILE* const file = is_planted || path == nullptr ? nullptr : std::fopen(path, "r");
  if (file != nullptr) {
    is_planted = std::fscanf(file, "%llu", &fake_nvml.xid) == 1;
    fake_nvml.num_xids += is_planted ? 1 : 0;
    std::fclose(file);
  }
}

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
  if (fake_nvml.on_shutdown != nullptr) {
    fake_nvml.on_shutdown();
  }
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

int nvmlDeviceGetHandleByUUID(const char* uuid, Gpu** gpu) {
  const unsigned index = static_cast<unsigned>(uuid[std::strlen(uuid) - 1] - '0');
  return nvmlDeviceGetHandleByIndex_v2(index, gpu);
}

int nvmlDeviceGetTotalEnergyConsumption(const Gpu* gpu, unsigned long long* millijoules) {
  *millijoules = fake_nvml.millijoules + gpu->number;
  return FailsOf(gpu, "nvmlDeviceGetTotalEnergyConsumption") ? kGpuIsLost : kSuccess;
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

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return std::snprintf(version, length, "580.65.06") < static_cast<int>(length) ? kSuccess : kInsufficientSize;
}

struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(const Gpu* gpu, unsigned* count, nvmlProcessInfo_t* infos) {
  const unsigned num_processes = fake_nvml.own_bytes > 0 ? 2 : 1;
  if (*count < num_processes) {
    return kInsufficientSize;
  }
  *count = num_processes;
  infos[0] = {1, 1 << 20, 0, 0};
  if (num_processes == 2) {
    infos[1] = {static_cast<unsigned>(getpid()), static_cast<unsigned long long>(fake_nvml.own_bytes), 0, 0};
  }
  return FailsOf(gpu, "nvmlDeviceGetComputeRunningProcesses_v3") ? kGpuIsLost : kSuccess;
}

struct nvmlUtilization_t {
  unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(const Gpu* gpu, nvmlUtilization_t* percent) {
  *percent = {75 + gpu->number, 20};
  return FailsOf(gpu, "nvmlDeviceGetUtilizationRates") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetTemperature(const Gpu* gpu, int sensor, unsigned* celsius) {
  *celsius = 50 + gpu->number;
  return sensor != 0 ? kInvalidArgument : FailsOf(gpu, "nvmlDeviceGetTemperature") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetPowerUsage(const Gpu* gpu, unsigned* milliwatts) {
  *milliwatts = 312'500;
  return FailsOf(gpu, "nvmlDeviceGetPowerUsage") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetEnforcedPowerLimit(const Gpu* gpu, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return FailsOf(gpu, "nvmlDeviceGetEnforcedPowerLimit") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetClockInfo(const Gpu* gpu, int clock, unsigned* megahertz) {
  *megahertz = clock == 1 ? 1980 : 2619;
  return FailsOf(gpu, "nvmlDeviceGetClockInfo") ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetTotalEccErrors(const Gpu* gpu, int kind, int counter, unsigned long long* count) {
  *count = kind == 0 ? 3 : fake_nvml.ecc_errors;
  return counter != 0 ? kInvalidArgument : FailsOf(gpu, "nvmlDeviceGetTotalEccErrors") ? kGpuIsLost : kSuccess;
}

struct nvmlEventData_t {
  Gpu* gpu;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

int nvmlEventSetCreate(void** set) {
  *set = &fake_nvml;
  ++fake_nvml.num_event_sets;
  return Fails("nvmlEventSetCreate") ? kGpuIsLost : kSuccess;
}

int nvmlEventSetFree(void* /*set*/) {
  --fake_nvml.num_event_sets;
  return kSuccess;
}

int nvmlDeviceRegisterEvents(Gpu* /*gpu*/, unsigned long long types, void* /*set*/) {
  return types == 8 ? kSuccess : kInvalidArgument;
}

// Returns the next event that the test has planted, as an event of the last GPU. If there is none, returns a timeout,
// as NVML does.
int nvmlEventSetWait_v2(void* /*set*/, nvmlEventData_t* event, unsigned timeout_ms) {
  PlantFault();
  if (fake_nvml.num_xids == 0 || timeout_ms != 0) {
    return kTimeout;
  }
  --fake_nvml.num_xids;
  nvmlDeviceGetHandleByIndex_v2(fake_nvml.num_gpus - 1, &event->gpu);
  event->type = 8;
  event->data = fake_nvml.xid;
  return kSuccess;
}

#ifndef FAKE_WITHOUT_MEMORY
int nvmlDeviceGetMemoryInfo(const Gpu* gpu, nvmlMemory_t* memory) {
  if (fake_nvml.on_memory != nullptr) {
    fake_nvml.on_memory(gpu->number);
  }
  memory->total = (64ull << 30) << gpu->number;
  memory->used = static_cast<unsigned long long>(fake_nvml.used_bytes);
  memory->free = memory->total - memory->used;
  return FailsOf(gpu, "nvmlDeviceGetMemoryInfo") ? kGpuIsLost : kSuccess;
}
#endif
}
