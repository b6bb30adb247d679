#pragma once

#include <cstdint>

namespace ampd::device {

// State of the fake NVML, exported by the library as `fake_nvml` and set by tests. GPU n has 64 GiB << n.
// Single-threaded: owner the test.
struct FakeNvml {
  unsigned num_gpus = 2;
  int64_t used_bytes = 0;                // used memory of every GPU
  const char* failing_call = "";         // name of a function that returns an error
  unsigned failing_gpu = ~0u;            // for functions that take a GPU: the one for which they fail
  int num_inits = 0, num_shutdowns = 0;  // successful calls, counted by the library
};

}  // namespace ampd::device
