#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "precision/loss_scale.h"

namespace ampd::amp {

// How one parameter's gradient fills the range of the format that its numbers were rounded to, scaled as it is.
struct GradientSample {
  // Of the smallest fp32 number, and of the largest.
  static constexpr int kLeastExponent = -149;
  static constexpr int kGreatestExponent = 127;

  std::string parameter;
  std::string module;
  at::ScalarType dtype = at::kHalf;
  int64_t num_elements = 0;
  int64_t num_zero = 0;
  int64_t num_subnormal = 0;  // below the format's smallest normal number, where bits are lost
  int64_t num_non_finite = 0;
  // Elements that are neither zero nor not finite, subnormal ones included: entry i has those from 2^(i - 149) to
  // below twice that.
  std::array<int64_t, kGreatestExponent - kLeastExponent + 1> by_exponent = {};

  // REQUIRES: kLeastExponent to kGreatestExponent.
  int64_t NumWithExponent(int exponent) const { return by_exponent[static_cast<size_t>(exponent - kLeastExponent)]; }
  // The format's smallest normal number is 2 to this.
  int SmallestNormalExponent() const;

  // Of the elements that are not zero: the part that lost bits. Zeros do not count, for many are meant (a ReLU that is
  // off); where gradients underflow to zero there are subnormal ones beside them.
  double UnderflowShare() const;
};

// Looks at no more than 65,536 elements, evenly spread over the tensor, wherever it is. `format`: what its numbers were
// rounded to, which it may be a widened copy of. REQUIRES: fp16, bf16 or fp32; dense.
GradientSample SampleGradient(const at::Tensor& gradient, at::ScalarType format);

// The loss scale, a power of two times `scale`, under which the largest of the gradients would have the exponent 12: an
// eighth of what overflows in fp16; `scale` itself when all are zero or one is not finite. Held within `range`.
double SuggestScale(const std::vector<GradientSample>& samples, double scale, const precision::ScaleRange& range);

// "2^-24..-15 1.2%, 2^-14 3.4%, ...": the share of each exponent that occurs.
std::string DescribeExponents(const GradientSample& sample);

}  // namespace ampd::amp
