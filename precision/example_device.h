#pragma once

#include "ampd/v1/worker.pb.h"

// Devices that can do all that one of their kind can, for questions that name no worker's.
namespace ampd::precision {

// With avx512_bf16. Its id is "a CPU".
v1::Device ExampleCpu();

// Of compute capability 9.0. Its id is "a GPU".
v1::Device ExampleGpu();

}  // namespace ampd::precision
