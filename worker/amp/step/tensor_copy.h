#pragma once

#include "ATen/core/Tensor.h"

namespace ampd::amp {

// A tensor, and where it is copied to: a tensor with the same dtype, sizes and strides.
struct TensorCopy {
  at::Tensor from;
  at::Tensor to;
};

}  // namespace ampd::amp
