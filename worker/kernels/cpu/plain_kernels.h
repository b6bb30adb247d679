#pragma once

#include "worker/kernels/cpu/step_kernels.h"

// The reference loops of a step, one element at a time: every instruction set and every GPU must give the same bits as
// these loops. For tests.
namespace ampd::kernels {

extern const CpuKernels kPlainKernels;

}  // namespace ampd::kernels
