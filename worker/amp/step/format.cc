#include "worker/amp/step/format.h"

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"

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

at::Tensor AsMatrix(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

// Gives a convolution's weight channels-last strides by copying it. Calling contiguous(channels-last) would leave the
// strides of a weight with one input channel as they are, because its row-major strides count as channels-last too.
// The convolution would then run in the slow order.
at::Tensor InTrainingLayout(const at::Tensor& tensor) {
  if (tensor.dim() != 4) {
    return tensor.contiguous();
  }
  if (tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast &&
      tensor.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    return tensor;
  }
  return at::empty_like(tensor, tensor.options().memory_format(at::MemoryFormat::ChannelsLast)).copy_(tensor);
}

at::Tensor ContiguousCopy(const at::Tensor& tensor) {
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
  copy.copy_(tensor.detach());
  return copy;
}

at::Tensor CopyInto(at::Tensor reuse, const at::Tensor& tensor, at::ScalarType dtype) {
  if (!reuse.defined() || reuse.sizes() != tensor.sizes() || reuse.scalar_type() != dtype) {
    reuse = at::empty(tensor.sizes(), at::TensorOptions().dtype(dtype).pinned_memory(tensor.is_cuda()));
  }
  // The host casts, because a cast on the GPU would need memory there that training may need.
  const bool casts_on_gpu = tensor.is_cuda() && tensor.scalar_type() != dtype;
  return reuse.copy_(casts_on_gpu ? ContiguousCopy(tensor) : tensor.detach());
}

}  // namespace ampd::amp
