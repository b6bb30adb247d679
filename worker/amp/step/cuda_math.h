#pragma once

#include "precision/policy.h"

namespace ampd::amp {

// Sets how LibTorch multiplies on GPUs, for the whole process, as the policy says: fp32 matrix products and
// convolutions in ieee or tf32 (LibTorch's default for convolutions is tf32, even if fp32 was requested), and products
// of 16-bit formats summed entirely in fp32. Needs no GPU.
void UseCudaMath(const precision::ResolvedPolicy& policy);

}  // namespace ampd::amp
