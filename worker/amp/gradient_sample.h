#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "precision/loss_scale.h"

namespace ampd::amp {

// A histogram of one parameter's scaled gradient. It shows how the numbers use the range of the format to which they
// were rounded.
struct GradientSample {
  // Exponents of the smallest and the largest fp32 number.
  static constexpr int kLeastExponent = -149;
  static constexpr int kGreatestExponent = 127;

  std::string parameter;
  std::string module;
  at::ScalarType dtype = at::kHalf;
  int64_t num_elements = 0;
  int64_t num_zero = 0;
  int64_t num_subnormal = 0;  // Below the format's smallest normal number, where bits are lost.
  int64_t num_non_finite = 0;
  // Histogram of finite nonzero elements, subnormal ones included: entry i counts those in [2^(i - 149), 2^(i - 148)).
  std::array<int64_t, kGreatestExponent - kLeastExponent + 1> by_exponent = {};

  // REQUIRES: `exponent` is in [kLeastExponent, kGreatestExponent].
  int64_t NumWithExponent(int exponent) const { return by_exponent[static_cast<size_t>(exponent - kLeastExponent)]; }
  // Exponent of the format's smallest normal number, which is 2 to this power.
  int SmallestNormalExponent() const;

  // The number of subnormal elements, which have lost bits, as a share of all nonzero elements. Zeros do not count,
  // because many are intended (an inactive ReLU). Gradients that underflowed to zero are noticed nevertheless, because
  // then others are subnormal.
  double UnderflowShare() const;
};

// Samples at most 65,536 elements, evenly spaced over the tensor, on any device. `format` is the format to which the
// numbers were rounded; the tensor may hold them in a wider one. REQUIRES: `format` is fp16, bf16 or fp32; the tensor
// is dense.
GradientSample SampleGradient(const at::Tensor& gradient, at::ScalarType format);

// Suggests a loss scale: `scale` times the power of two that brings the largest gradient into [2^12, 2^13). (fp16
// overflows at 2^16.) Returns `scale` itself if all gradients are zero or one is not finite. The result is clamped to
// `range`.
double SuggestScale(const std::vector<GradientSample>& samples, double scale, const precision::ScaleRange& range);

// Returns text such as "2^-24..-15 1.2%, 2^-14 3.4%, ...": the share of each exponent that occurs.
std::string DescribeExponents(const GradientSample& sample);

}  // namespace ampd::amp
