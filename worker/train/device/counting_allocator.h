#pragma once

#include <cstdint>

namespace ampd::train {

// Bytes of tensors on the CPU, exactly: allocated now, and the most since ResetPeak. Thread-safe.
struct CpuMemory {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;
};

// From now on LibTorch takes memory for CPU tensors through a counter, and what a step frees stays with the process for
// the next one: glibc would give each large tensor back to the kernel and take its pages anew, a third of an fp32 step
// of the MNIST CNN. The kernel may back large tensors with pages of 2 MB. Call once, before the first tensor.
void InstallCountingAllocator();

CpuMemory GetCpuMemory();
void ResetPeakCpuMemory();

}  // namespace ampd::train
