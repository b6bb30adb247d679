#pragma once

#include <cstdint>

namespace ampd::data {

// Changes of training images: a crop at a random place of the padded image, then a mirror image of every second one.
struct Augmentation {
  int64_t crop_padding = 0;  // pixels on each side; the crop is as large as the image was
  bool flip = false;         // left to right
  uint64_t seed = 0;

  bool enabled() const { return crop_padding > 0 || flip; }
};

// What becomes of one image.
struct ImageChange {
  int64_t top = 0;  // of the crop in the padded image, in [0, 2 * crop_padding]
  int64_t left = 0;
  bool mirrored = false;
  friend bool operator==(const ImageChange&, const ImageChange&) = default;
};

// Depends on (seed, epoch, sample) alone, so neither on the order of reading nor on who reads. REQUIRES: crop_padding
// is in [0, 2^30).
ImageChange ChangeOf(const Augmentation& augmentation, int64_t epoch, int64_t sample);

}  // namespace ampd::data
