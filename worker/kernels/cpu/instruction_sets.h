#pragma once

#include "worker/kernels/cpu/attention.h"
#include "worker/kernels/cpu/step_kernels.h"

// What step_loops.inc is compiled to, once for each instruction set, and attention for the one that has bf16 products.
// Calling one that the machine cannot run ends the process: KernelsFor and BestAttention ask first.
namespace ampd::kernels {

extern const CpuKernels kPortableKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;
extern const AttentionKernels kAvx512Bf16Attention;

}  // namespace ampd::kernels
