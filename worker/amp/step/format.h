#pragma once

#include "ATen/core/Tensor.h"
#include "worker/kernels/cpu/formats.h"

// Conversions between LibTorch's tensors and the kernels, which take pointers and formats only.
namespace ampd::amp {

// The format of a tensor as the kernels name it. Throws c10::Error for any format other than float, bfloat16 and half.
kernels::Format FormatOf(const at::Tensor& tensor);

// Call after a kernel has written the leaf, because autograd does not notice such a write. If an autograd graph has
// saved the old content, its backward pass then fails, instead of using the new content.
void BumpVersion(const at::Tensor& leaf);

// A tensor (*, C) as a matrix (N, C), without a copy if its strides allow that.
at::Tensor AsMatrix(const at::Tensor& tensor);

// Returns the tensor in the layout that training uses: channels-last for a tensor with four dimensions, otherwise
// row-major. Convolutions with channels-last weights, and the ops after them, run about 1.8 times as fast on a CPU
// (measured on the MNIST CNN).
at::Tensor InTrainingLayout(const at::Tensor& tensor);

// A copy on the CPU that shares no memory with `tensor`, without gradients, in row-major order.
at::Tensor ContiguousCopy(const at::Tensor& tensor);

// Returns a copy of `tensor` on the CPU like that of ContiguousCopy, but in `dtype`. If `reuse` has the shape of
// `tensor` and this dtype, the copy is written into the memory of `reuse`, because writing to fresh pages takes longer
// than the copy. Otherwise new memory is allocated. If `tensor` is on a GPU, the new memory is pinned, so that the GPU
// fills it at the bus's full rate. `reuse` may be undefined. REQUIRES: no other tensor uses the memory of `reuse`.
at::Tensor CopyInto(at::Tensor reuse, const at::Tensor& tensor, at::ScalarType dtype);

}  // namespace ampd::amp
