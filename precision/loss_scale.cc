#include "precision/loss_scale.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

namespace ampd::precision {

std::string LossScaleText(double scale) {
  char text[32];
  const bool is_float = std::abs(scale) <= std::numeric_limits<float>::max();
  const auto [end, unused] = is_float ? std::to_chars(std::begin(text), std::end(text), static_cast<float>(scale))
                                      : std::to_chars(std::begin(text), std::end(text), scale);
  return std::string(std::begin(text), end);
}

}  // namespace ampd::precision
