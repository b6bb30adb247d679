#include "precision/loss_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

namespace ampd::precision {

double ScaleRange::Hold(double scale) const { return std::clamp(scale, least, greatest); }

ScaleRange RangeOf(const LossScaleConfig& config) {
  const ScaleRange of_fp32;
  return {.least = of_fp32.Hold(config.floor), .greatest = of_fp32.Hold(config.cap)};
}

std::string LossScaleText(double scale) {
  char text[32];
  const bool is_float = std::abs(scale) <= std::numeric_limits<float>::max();
  const auto [end, unused] = is_float ? std::to_chars(std::begin(text), std::end(text), static_cast<float>(scale))
                                      : std::to_chars(std::begin(text), std::end(text), scale);
  return std::string(std::begin(text), end);
}

}  // namespace ampd::precision
