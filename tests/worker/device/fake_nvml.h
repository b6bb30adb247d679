#pragma once

#include <cstdint>

namespace ampd::device {

// What the fake NVML shows, for a test to change: `fake_nvml`, a symbol of the library. GPU n of it has 64 GiB << n.
// Single-threaded: owner the test.
struct FakeNvml {
  unsigned num_gpus = 2;
  int64_t used_bytes = 0;                // of every GPU
  const char* failing_call = "";         // this function ends with an error,
  unsigned failing_gpu = ~0u;            // of those that take a GPU only for this one
  int num_inits = 0, num_shutdowns = 0;  // those that succeeded, counted by the library
};

}  // namespace ampd::device
