#pragma once

#include <cstdint>

namespace ampd::data {

// Random changes of training images: first a crop at a random position of the padded image, and then a left-right flip
// with probability 1/2.
struct Augmentation {
  int64_t crop_padding = 0;  // Pixels added on each side. The crop is as large as the original.
  bool flip = false;         // Flip half of the images from left to right.
  uint64_t seed = 0;

  bool enabled() const { return crop_padding > 0 || flip; }
};

// The random change of one image.
struct ImageChange {
  int64_t top = 0;  // Position of the crop in the padded image, in [0, 2 * crop_padding].
  int64_t left = 0;
  bool mirrored = false;
  friend bool operator==(const ImageChange&, const ImageChange&) = default;
};

// Returns the change of a sample's image in an epoch. It depends on (seed, epoch, sample) alone, not on the order in
// which samples are read, or on the thread that reads them. REQUIRES: crop_padding is in [0, 2^30).
ImageChange ChangeOf(const Augmentation& augmentation, int64_t epoch, int64_t sample);

}  // namespace ampd::data
