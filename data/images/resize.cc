#include "data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ampd::images {
namespace {

constexpr int kChannels = 3;
constexpr int kFractionBits = 22;  // Fraction bits of a weight, so few that 255 times a weight of 1 fits into 31 bits.

// The source pixels of a row, or of a column, from which one pixel of the result is computed, and their weights.
struct Taps {
  int64_t begin = 0;  // The first source pixel.
  std::vector<int32_t> weights;
};

// Rounds to the nearest integer; halves round up.
int64_t Nearest(double number) { return static_cast<int64_t>(std::floor(number + 0.5)); }

int32_t Fixed(double weight) { return static_cast<int32_t>(Nearest(weight * (1 << kFractionBits))); }

uint8_t Rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + (1 << (kFractionBits - 1))) >> kFractionBits, 0, 255));
}

std::vector<Taps> TapsOf(int64_t in_size, int64_t out_size) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double filter_scale = std::max(scale, 1.0);
  std::vector<Taps> taps(static_cast<size_t>(out_size));
  for (int64_t out = 0; out < out_size; ++out) {
    const double centre = (static_cast<double>(out) + 0.5) * scale;
    const auto begin = std::max<int64_t>(Nearest(centre - filter_scale), 0);
    const auto end = std::min<int64_t>(Nearest(centre + filter_scale), in_size);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t in = begin; in < end; ++in) {
      const double distance = std::abs((static_cast<double>(in) - centre + 0.5) * (1.0 / filter_scale));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    Taps& one = taps[static_cast<size_t>(out)];
    one.begin = begin;
    for (const double weight : weights) {
      one.weights.push_back(Fixed(sum != 0 ? weight / sum : weight));
    }
  }
  return taps;
}

// Filters one row or column of pixels of one channel, and writes `taps.size()` results. Consecutive pixels are `step`
// elements apart, in `in` and in `out`.
void Filter(const uint8_t* in, uint8_t* out, int64_t step, const std::vector<Taps>& taps) {
  for (const Taps& one : taps) {
    int32_t sum = 0;
    const uint8_t* from = in + one.begin * step;
    for (const int32_t weight : one.weights) {
      sum += *from * weight;
      from += step;
    }
    *out = Rounded(sum);
    out += step;
  }
}

}  // namespace

Box CentredBox(const Picture& picture, int64_t width, int64_t height) {
  const int64_t box_width = std::clamp<int64_t>(picture.height * width / height, 1, picture.width);
  const int64_t box_height = std::clamp<int64_t>(picture.width * height / width, 1, picture.height);
  return {(picture.width - box_width) / 2, (picture.height - box_height) / 2, box_width, box_height};
}

Picture Resize(const Picture& picture, const Box& box, int64_t width, int64_t height) {
  const std::vector<Taps> across = TapsOf(box.width, width);
  const std::vector<Taps> down = TapsOf(box.height, height);
  // Like Pillow, resize the rows first, round the result to bytes, and then resize the columns.
  Picture narrowed{width, box.height, std::vector<uint8_t>(static_cast<size_t>(width * box.height * kChannels))};
  for (int64_t row = 0; row < box.height; ++row) {
    const uint8_t* const in = picture.pixels.data() + ((box.top + row) * picture.width + box.left) * kChannels;
    uint8_t* const out = narrowed.pixels.data() + row * width * kChannels;
    for (int channel = 0; channel < kChannels; ++channel) {
      Filter(in + channel, out + channel, kChannels, across);
    }
  }
  Picture resized{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * kChannels))};
  for (int64_t column = 0; column < width * kChannels; ++column) {
    Filter(narrowed.pixels.data() + column, resized.pixels.data() + column, width * kChannels, down);
  }
  return resized;
}

}  // namespace ampd::images
