#pragma once

#include "c10/core/Device.h"

namespace ampd::amp {

// Returns the stream that LibTorch's ops on the device currently use, as a cudaStream_t for our kernels. The result
// is null for CUDA's default stream, and for a CPU.
void* CurrentStream(c10::Device device);

}  // namespace ampd::amp
