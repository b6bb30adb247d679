#pragma once

#include "c10/core/Device.h"

namespace ampd::amp {

// The stream that LibTorch's ops on the device are given to now, as our kernels take it: a cudaStream_t. Null is CUDA's
// default stream, and for a CPU there is no other.
void* CurrentStream(c10::Device device);

}  // namespace ampd::amp
