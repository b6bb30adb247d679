#include "worker/amp/gradient_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ATen/ops/as_strided.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ampd::amp {
namespace {

constexpr int64_t kMaxGradientElements = 65'536;
constexpr int kWantedExponent = 12;
constexpr double kLargestScale = 0x1p127;  // The largest power of two in fp32.

// Bit fields of an fp32 number.
constexpr uint32_t kMagnitude = 0x7fff'ffff;
constexpr int kMantissaBits = 23;
constexpr uint32_t kNonFinite = 255;
constexpr int kBias = 127;

// Returns the index into by_exponent for a number with these magnitude bits. REQUIRES: the number is finite and not
// zero.
size_t PlaceOf(uint32_t magnitude) {
  const uint32_t exponent = magnitude >> kMantissaBits;
  // A subnormal number equals its mantissa times 2^-149.
  const int from_least = exponent == 0 ? static_cast<int>(std::bit_width(magnitude)) - 1
                                       : static_cast<int>(exponent) - kBias - GradientSample::kLeastExponent;
  return static_cast<size_t>(from_least);
}

}  // namespace

int GradientSample::SmallestNormalExponent() const { return dtype == at::kHalf ? -14 : -126; }

double GradientSample::UnderflowShare() const {
  const int64_t num_nonzero = num_elements - num_zero;
  return num_nonzero == 0 ? 0 : static_cast<double>(num_subnormal) / static_cast<double>(num_nonzero);
}

GradientSample SampleGradient(const at::Tensor& gradient, at::ScalarType format) {
  GradientSample sample;
  sample.dtype = format;
  const int64_t stride = std::max<int64_t>(1, (gradient.numel() + kMaxGradientElements - 1) / kMaxGradientElements);
  sample.num_elements = (gradient.numel() + stride - 1) / stride;
  // Widening to fp32 is exact, so zero, subnormal and non-finite numbers stay distinct.
  const at::Tensor here =
      at::as_strided(gradient, {sample.num_elements}, {stride}).to(at::kCPU, at::kFloat).contiguous();
  const auto* bits = static_cast<const uint32_t*>(here.const_data_ptr());
  for (int64_t i = 0; i < sample.num_elements; ++i) {
    const uint32_t magnitude = bits[i] & kMagnitude;
    if (magnitude == 0) {
      ++sample.num_zero;
    } else if (magnitude >> kMantissaBits == kNonFinite) {
      ++sample.num_non_finite;
    } else {
      ++sample.by_exponent[PlaceOf(magnitude)];
    }
  }
  for (int exponent = GradientSample::kLeastExponent; exponent < sample.SmallestNormalExponent(); ++exponent) {
    sample.num_subnormal += sample.NumWithExponent(exponent);
  }
  return sample;
}

double SuggestScale(const std::vector<GradientSample>& samples, double scale, const precision::ScaleRange& range) {
  int largest = GradientSample::kLeastExponent - 1;
  for (const GradientSample& sample : samples) {
    if (sample.num_non_finite > 0) {
      return range.Hold(scale);
    }
    for (int exponent = largest + 1; exponent <= GradientSample::kGreatestExponent; ++exponent) {
      largest = sample.NumWithExponent(exponent) > 0 ? exponent : largest;
    }
  }
  const double suggested = largest < GradientSample::kLeastExponent
                               ? scale
                               : std::min(std::ldexp(scale, kWantedExponent - largest), kLargestScale);
  return range.Hold(suggested);
}

std::string DescribeExponents(const GradientSample& sample) {
  std::string text;
  const auto add = [&](const std::string& name, int64_t count) {
    if (count > 0) {
      absl::StrAppendFormat(&text, "%s%s %.1f%%", text.empty() ? "" : ", ", name,
                            100.0 * static_cast<double>(count) / static_cast<double>(sample.num_elements));
    }
  };
  const int normal = sample.SmallestNormalExponent();
  const int least = sample.dtype == at::kHalf ? -24 : sample.dtype == at::kBFloat16 ? -133 : -149;
  add("0", sample.num_zero);
  add(absl::StrCat("2^", least, "..", normal - 1), sample.num_subnormal);
  for (int exponent = normal; exponent <= GradientSample::kGreatestExponent; ++exponent) {
    add(absl::StrCat("2^", exponent), sample.NumWithExponent(exponent));
  }
  add("not finite", sample.num_non_finite);
  return text;
}

}  // namespace ampd::amp
