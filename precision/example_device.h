#pragma once

#include "ampd/v1/worker.pb.h"

// Devices with all capabilities of their kind, for requests that ask about a policy without naming a worker's device.
namespace ampd::precision {

// A CPU with avx512_bf16. Its id is "a CPU".
v1::Device ExampleCpu();

// A GPU of compute capability 9.0. Its id is "a GPU".
v1::Device ExampleGpu();

}  // namespace ampd::precision
