#pragma once

#include <c10/cuda/CUDAStream.h>

namespace ampd::amp {

// The purpose of a CUDA stream that ampd uses. Part of libampd_cuda_graph.so.
enum class StreamUse {
  kRecording,  // Steps warm up and are recorded on it, because a default stream cannot be recorded.
  kCopies,     // Inputs are copied to the device on it, beside the work of a step.
};

// The device's stream for this use. There is one for the whole process: libraries keep workspaces for every stream that
// they have seen (precision/cost/memory.cc counts cuBLAS's).
c10::cuda::CUDAStream StreamFor(StreamUse use, c10::DeviceIndex device);

}  // namespace ampd::amp
