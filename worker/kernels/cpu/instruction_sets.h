#pragma once

#include "worker/kernels/cpu/attention.h"
#include "worker/kernels/cpu/step_kernels.h"

// The tables compiled from step_loops.inc, one per instruction set, and attention for the set that has bf16 products.
// Calling a function of a table that the machine cannot run ends the process; KernelsFor and BestAttention check first.
namespace ampd::kernels {

extern const CpuKernels kPortableKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;
extern const AttentionKernels kAvx512Bf16Attention;

}  // namespace ampd::kernels
