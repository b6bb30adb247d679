#include "worker/amp/ops/loss_kernels.h"

#include "ATen/core/Reduction.h"
#include "ATen/ops/empty.h"
#include "c10/util/Exception.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {
namespace {

// Converts the tensors of a cross entropy to the pointers that the kernels take.
kernels::CudaCrossEntropy PassOver(const LossKernels::Rows& rows) {
  return {.logits = rows.logits.const_data_ptr(),
          .format = FormatOf(rows.logits),
          .rows = rows.logits.size(0),
          .classes = rows.logits.size(1),
          .row_stride = rows.logits.stride(0),
          .target = rows.target.const_data_ptr<int64_t>(),
          .is_mean = rows.reduction == at::Reduction::Mean,
          .log_sum_exp = rows.log_sum_exp.mutable_data_ptr<float>(),
          .num_counted = rows.num_counted.mutable_data_ptr<float>()};
}

}  // namespace

at::Tensor LossKernels::Forward(Rows& rows) const {
  TORCH_CHECK(rows.logits.dim() == 2 && rows.target.dim() == 1 && rows.target.size(0) == rows.logits.size(0) &&
                  rows.target.device() == rows.logits.device(),
              "a cross entropy takes one target for each row of its logits; the logits are ", rows.logits.sizes(),
              " on ", rows.logits.device(), ", and the targets are ", rows.target.sizes(), " on ",
              rows.target.device());
  const auto options = rows.logits.options().dtype(at::kFloat);
  rows.log_sum_exp = at::empty({rows.logits.size(0)}, options);
  rows.num_counted = at::empty({1}, options);
  const at::Tensor row_losses = at::empty({rows.logits.size(0)}, options);
  at::Tensor loss = at::empty({}, options);
  const kernels::CudaCrossEntropy pass = PassOver(rows);
  Check(table().loss->cross_entropy(&pass, row_losses.mutable_data_ptr<float>(), loss.mutable_data_ptr<float>(),
                                    Stream()));
  return loss;
}

void LossKernels::Backward(const Rows& rows, const at::Tensor& upstream, const at::Tensor& gradient) const {
  const kernels::CudaCrossEntropy pass = PassOver(rows);
  const kernels::CudaLogitGradient written = {gradient.mutable_data_ptr(), gradient.stride(0),
                                              gradient.size(1) - rows.logits.size(1)};
  Check(table().loss->cross_entropy_backward(&pass, upstream.const_data_ptr<float>(), written, Stream()));
  BumpVersion(gradient);
}

}  // namespace ampd::amp
