#include "worker/amp/gradient_sample.h"

#include <algorithm>
#include <cmath>

#include "ATen/ops/as_strided.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ampd::amp {
namespace {

constexpr int64_t kMaxElements = 65'536;
constexpr int kSmallestNormal = -14;
constexpr int kWantedExponent = 12;
constexpr uint16_t kNonFinite = 31;

}  // namespace

double GradientSample::UnderflowShare() const {
  const int64_t num_nonzero = num_elements - num_zero;
  return num_nonzero == 0 ? 0 : static_cast<double>(num_subnormal) / static_cast<double>(num_nonzero);
}

GradientSample SampleGradient(const at::Tensor& gradient) {
  GradientSample sample;
  const int64_t stride = std::max<int64_t>(1, (gradient.numel() + kMaxElements - 1) / kMaxElements);
  sample.num_elements = (gradient.numel() + stride - 1) / stride;
  const at::Tensor here = at::as_strided(gradient, {sample.num_elements}, {stride}).cpu().contiguous();
  const auto* bits = static_cast<const uint16_t*>(here.const_data_ptr());
  for (int64_t i = 0; i < sample.num_elements; ++i) {
    const uint16_t magnitude = bits[i] & 0x7fff;
    const uint16_t exponent = magnitude >> 10;
    if (magnitude == 0) {
      ++sample.num_zero;
    } else if (exponent == 0) {
      ++sample.num_subnormal;
    } else if (exponent == kNonFinite) {
      ++sample.num_non_finite;
    } else {
      ++sample.num_normal[exponent - 1u];
    }
  }
  return sample;
}

double SuggestScale(const std::vector<GradientSample>& samples, double scale) {
  int largest = kSmallestNormal - 1;  // subnormal
  bool any = false;
  for (const GradientSample& sample : samples) {
    if (sample.num_non_finite > 0) {
      return scale;
    }
    any = any || sample.num_zero < sample.num_elements;
    for (int i = 0; i < static_cast<int>(sample.num_normal.size()); ++i) {
      largest = sample.num_normal[static_cast<size_t>(i)] > 0 ? std::max(largest, kSmallestNormal + i) : largest;
    }
  }
  return any ? std::ldexp(scale, kWantedExponent - largest) : scale;
}

std::string DescribeExponents(const GradientSample& sample) {
  std::string text;
  const auto add = [&](const std::string& name, int64_t count) {
    if (count > 0) {
      absl::StrAppendFormat(&text, "%s%s %.1f%%", text.empty() ? "" : ", ", name,
                            100.0 * static_cast<double>(count) / static_cast<double>(sample.num_elements));
    }
  };
  add("0", sample.num_zero);
  add("2^-24..-15", sample.num_subnormal);
  for (int i = 0; i < static_cast<int>(sample.num_normal.size()); ++i) {
    add(absl::StrCat("2^", kSmallestNormal + i), sample.num_normal[static_cast<size_t>(i)]);
  }
  add("not finite", sample.num_non_finite);
  return text;
}

}  // namespace ampd::amp
