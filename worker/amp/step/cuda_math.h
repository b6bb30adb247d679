#pragma once

#include "precision/policy.h"

namespace ampd::amp {

// Sets how LibTorch multiplies on GPUs, for the whole process, as the policy says: fp32 products of matrices and of
// convolutions in ieee or tf32 (LibTorch's own default for convolutions is tf32, also for those who asked for fp32),
// and products of 16-bit formats summed in fp32 all the way. Needs no GPU.
void UseCudaMath(const precision::ResolvedPolicy& policy);

}  // namespace ampd::amp
