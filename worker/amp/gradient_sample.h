#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"

namespace ampd::amp {

// How one parameter's fp16 gradient fills the range of the format, scaled as it is.
struct GradientSample {
  std::string parameter;
  std::string module;
  int64_t num_elements = 0;
  int64_t num_zero = 0;
  int64_t num_subnormal = 0;  // below 2^-14, where bits are lost
  int64_t num_non_finite = 0;
  std::array<int64_t, 30> num_normal = {};  // by exponent, from 2^-14 to 2^15

  // Of the elements that are not zero: the part that lost bits. Zeros do not count, for many are meant (a ReLU that is
  // off); where gradients underflow to zero there are subnormal ones beside them.
  double UnderflowShare() const;
};

// Looks at no more than 65,536 elements, evenly spread over the tensor, wherever it is. REQUIRES: fp16, dense.
GradientSample SampleGradient(const at::Tensor& gradient);

// The loss scale, a power of two times `scale`, under which the largest of the gradients would have the exponent 12: an
// eighth of what overflows. `scale` itself when all are zero or one is not finite.
double SuggestScale(const std::vector<GradientSample>& samples, double scale);

// "2^-24..-15 1.2%, 2^-14 3.4%, ...": the share of each exponent that occurs.
std::string DescribeExponents(const GradientSample& sample);

}  // namespace ampd::amp
