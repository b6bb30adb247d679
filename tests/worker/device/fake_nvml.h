#pragma once

#include <cstdint>

namespace ampd::device {

// State of the fake NVML. The library exports it as `fake_nvml`, and tests set its fields. GPU n has 64 GiB << n of
// memory. Single-threaded; owned by the test.
struct FakeNvml {
  unsigned num_gpus = 2;
  int64_t used_bytes = 0;              // used memory of every GPU
  int64_t own_bytes = 0;               // used memory of this process on every GPU; 0: NVML lists only another process
  unsigned long long ecc_errors = 1;   // uncorrected errors of every GPU
  unsigned long long millijoules = 0;  // the energy counter of GPU n shows this number plus n
  const char* failing_call = "";       // name of a function that returns an error
  unsigned failing_gpu = ~0u;          // GPU for which `failing_call` fails, if that function takes a GPU
  unsigned long long xid = 0;          // Xid number of the planted events, which belong to the last GPU
  int num_xids = 0;                    // planted events that were not read yet
  int num_event_sets = 0;              // event sets that exist now
  void (*on_memory)(unsigned gpu) = nullptr;  // called when the memory of a GPU is read; may block, as a hanging driver
  void (*on_shutdown)() = nullptr;            // called at the end of nvmlShutdown
  int num_inits = 0, num_shutdowns = 0;       // successful calls of nvmlInit and nvmlShutdown
};

}  // namespace ampd::device
