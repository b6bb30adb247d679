#pragma once

#include "ATen/core/Tensor.h"
#include "worker/kernels/cpu/formats.h"

// Where tensors meet the kernels, which know pointers and formats only.
namespace ampd::amp {

// The kernels' name for a tensor's format. Throws c10::Error for any other than float, bfloat16 and half.
kernels::Format FormatOf(const at::Tensor& tensor);

// Says that a kernel wrote the leaf behind autograd's back, so that a later backward pass over a graph that saved the
// old content fails instead of using the new one.
void BumpVersion(const at::Tensor& leaf);

// The tensor as it is kept while training. Convolutions read channels-last weights, and then all that follows them,
// about 1.8 times as fast on a CPU (measured on the MNIST CNN); everything else keeps its order.
at::Tensor InTrainingLayout(const at::Tensor& tensor);

// A copy on the CPU that shares nothing with `tensor`, without gradients, its elements in row-major order.
at::Tensor ContiguousCopy(const at::Tensor& tensor);

// The same in `dtype`, in the memory of `room` where that is of this shape and dtype: to write to fresh pages takes
// longer than the copy. What comes from a GPU goes to pinned memory, which it fills at the bus's rate. `room` may be
// undefined; nothing else may use it.
at::Tensor CopyInto(at::Tensor room, const at::Tensor& tensor, at::ScalarType dtype);

}  // namespace ampd::amp
