#pragma once

#include "ATen/core/Tensor.h"
#include "ATen/ops/empty.h"

namespace ampd::data {

// Returns `reuse` if it has this shape and type and is contiguous, and else a new tensor. The content is not defined.
inline at::Tensor EmptyLikeOr(const at::Tensor& reuse, at::IntArrayRef shape, at::ScalarType type) {
  const bool fits = reuse.defined() && reuse.scalar_type() == type && reuse.sizes() == shape && reuse.is_contiguous();
  return fits ? reuse : at::empty(shape, type);
}

}  // namespace ampd::data
