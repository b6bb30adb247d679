#include "worker/amp/step/cuda_math.h"

#include "ATen/Context.h"

namespace ampd::amp {

// Uses the older setters and not setFloat32Precision. If a process uses both kinds of setters, LibTorch's getters
// throw.
void UseCudaMath(const precision::ResolvedPolicy& policy) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(policy.formats.tf32_matmul);
  context.setAllowTF32CuDNN(policy.formats.tf32_matmul);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setAllowFP16AccumulationCuBLAS(false);
}

}  // namespace ampd::amp
