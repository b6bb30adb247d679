#pragma once

#include <functional>

#include "ATen/core/Tensor.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Registers ampd's layer norms, each of which does the work of several ops of ATen (precision/fused_norms.h): a layer
// norm and the cast of its result to `dtype`, and for the second op also the addition before the norm. All dtypes are
// fp32, bf16 or fp16; the dtypes of the arguments may differ.
//
//   ampd.layer_norm(input (..., shape), normalized_shape, weight (shape) or None, bias (shape) or None, eps, dtype,
//                   [finds_amax])
//       -> the norm of the input, in `dtype`; [its amax]
//   ampd.add_layer_norm(self, other, normalized_shape, weight, bias, eps, sum_dtype, dtype, [finds_amax])
//       -> self + other, in `sum_dtype`; the norm of this sum, in `dtype`; [its amax]
//
// If `finds_amax` is given and true, the last result is the amax of the norm (1, 1), in fp32: the largest magnitude
// after rounding to `dtype`, which an FP8 layer reads (graph/norm_amaxes.h). It has no gradient. The kernels write
// it into a tensor that `amax_cell` returns: (1, 1) fp32 on the device, 0, and used by nothing else. `amax_cell` may be
// missing if no op finds an amax.
//
// With CUDA kernels (worker/kernels/cuda/layer_norm_kernels.h) the forward pass is one launch, and so is the backward
// pass. All numbers are computed in fp32 and rounded once. The kernels are deterministic. The ops save the input, or
// the sum, and the moments of its rows. If other ops use the sum too, their gradient is added in the same pass.
// Without kernels, for empty tensors, and for operands whose sizes do not match, the ops consist of LibTorch's ops.
// These throw an error if sizes do not match.
void RegisterLayerNorm(executor::OpRegistry& registry, const ComputeDevice& device,
                       const std::function<at::Tensor()>& amax_cell = {});

}  // namespace ampd::amp
