#pragma once

#include <cstdint>

namespace ampd::train {

// Exact bytes of tensors on the CPU: the current amount, and the peak since ResetPeakCpuMemory. Thread-safe.
struct CpuMemory {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;
};

// Makes LibTorch allocate CPU tensors through a counter, and keeps freed memory in the process for the next step. By
// default glibc returns each large tensor to the kernel and fetches its pages again, which costs a third of an fp32
// step of the MNIST CNN. The kernel may back large tensors with pages of 2 MB. Call once, before the first tensor.
void InstallCountingAllocator();

CpuMemory GetCpuMemory();
void ResetPeakCpuMemory();

}  // namespace ampd::train
