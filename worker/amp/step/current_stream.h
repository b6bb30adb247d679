#pragma once

#include "c10/core/Device.h"

namespace ampd::amp {

// The stream that LibTorch's ops on the device currently use, as a cudaStream_t for our kernels. Null is CUDA's default
// stream, and always the result for a CPU.
void* CurrentStream(c10::Device device);

}  // namespace ampd::amp
