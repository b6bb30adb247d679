#pragma once

#include "precision/policy.h"

namespace ampd::amp {

// Sets how LibTorch multiplies on GPUs, for the whole process, as the policy says. Products and convolutions in fp32
// use ieee or tf32; this must be set because LibTorch's default for convolutions is tf32. Products of 16-bit formats
// are summed entirely in fp32. Needs no GPU.
void UseCudaMath(const precision::ResolvedPolicy& policy);

}  // namespace ampd::amp
