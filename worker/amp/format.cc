#include "worker/amp/format.h"

#include "ATen/ops/empty.h"

namespace ampd::amp {

kernels::Format FormatOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kernels::Format::kFloat32;
    case at::kBFloat16:
      return kernels::Format::kBFloat16;
    case at::kHalf:
      return kernels::Format::kFloat16;
    default:
      TORCH_CHECK(false, "no kernel for gradients of type ", tensor.scalar_type());
  }
}

void BumpVersion(const at::Tensor& leaf) { leaf.unsafeGetTensorImpl()->bump_version(); }

at::Tensor ContiguousCopy(const at::Tensor& tensor) {
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
  copy.copy_(tensor.detach());
  return copy;
}

}  // namespace ampd::amp
