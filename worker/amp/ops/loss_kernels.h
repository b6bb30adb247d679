#pragma once

#include "ATen/core/Tensor.h"
#include "worker/amp/ops/device_kernels.h"

namespace ampd::amp {

// Runs the cross entropy's kernels of libampd_cuda.so (worker/kernels/cuda/loss_kernels.h) on LibTorch's current
// stream, and does not wait for them. Errors are thrown as by Check. REQUIRES: every tensor is on the device.
// Thread-compatible.
class LossKernels : public DeviceKernels {
 public:
  using DeviceKernels::DeviceKernels;

  // A cross entropy of logits. Kernel and LibTorch have the same rules for ignored rows and reductions.
  struct Rows {
    at::Tensor logits;       // (N, classes) in fp32, bf16 or fp16; the elements of a row are adjacent.
    at::Tensor target;       // (N) int64, contiguous.
    int64_t reduction = 0;   // at::Reduction::Mean or Sum.
    at::Tensor log_sum_exp;  // (N) fp32; set by Forward.
    at::Tensor num_counted;  // (1) fp32; set by Forward.
  };

  // Returns the loss, a fp32 scalar. Throws c10::Error if there is not one target for each row.
  at::Tensor Forward(Rows& rows) const;
  // Writes the gradient of the logits into the first columns of `gradient` (N, classes or more), in their format, and
  // 0 into its other columns. `gradient` may have the same memory as the logits. `upstream`: the gradient of the
  // loss, fp32. Raises the version of `gradient`. So if an earlier pass saved `gradient` for its backward pass,
  // autograd refuses that pass.
  void Backward(const Rows& rows, const at::Tensor& upstream, const at::Tensor& gradient) const;
};

}  // namespace ampd::amp
