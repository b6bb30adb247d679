#pragma once

#include <cstdint>

namespace ampd::train {

// Bytes of tensors on the CPU, exactly: allocated now, and the most since ResetPeak. Thread-safe.
struct CpuMemory {
  int64_t allocated_bytes = 0;
  int64_t peak_bytes = 0;
};

// From now on LibTorch takes memory for CPU tensors through a counter. Call once, before the first tensor.
void InstallCountingAllocator();

CpuMemory GetCpuMemory();
void ResetPeakCpuMemory();

}  // namespace ampd::train
