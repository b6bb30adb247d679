#pragma once

#include "worker/kernels/cpu/step_kernels.h"

// What step_loops.inc is compiled to, once for each instruction set. Calling one that the machine cannot run ends the
// process: KernelsFor asks first.
namespace ampd::kernels {

extern const CpuKernels kPortableKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;

}  // namespace ampd::kernels
