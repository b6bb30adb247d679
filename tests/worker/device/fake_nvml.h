#pragma once

#include <cstdint>

namespace ampd::device {

// State of the fake NVML, which the library exports as `fake_nvml` and tests set. GPU n has 64 GiB << n of memory.
// Single-threaded; owner: the test.
struct FakeNvml {
  unsigned num_gpus = 2;
  int64_t used_bytes = 0;                // used memory of every GPU
  int64_t own_bytes = 0;                 // this process's share of it; 0: NVML lists only another process
  unsigned long long ecc_errors = 1;     // uncorrected errors of every GPU
  unsigned long long millijoules = 0;    // what the energy counter of every GPU shows, plus the GPU's number
  const char* failing_call = "";         // name of a function that returns an error
  unsigned failing_gpu = ~0u;            // if `failing_call` takes a GPU: the number of the GPU for which it fails
  unsigned long long xid = 0;            // the fault of the last GPU's events
  int num_xids = 0;                      // events that are not yet read
  int num_event_sets = 0;                // that exist
  int num_inits = 0, num_shutdowns = 0;  // successful calls, counted by the library
};

}  // namespace ampd::device
