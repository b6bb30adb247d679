#pragma once

#include <cstdint>

#include "data/images/picture.h"

namespace ampd::images {

// A part of a picture, in pixels.
struct Box {
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
};

// The largest part in the middle of a picture whose sides are as those of (width, height).
Box CentredBox(const Picture& picture, int64_t width, int64_t height);

// `box` of a picture in another size, by a triangle filter as wide as a pixel of the result: an average of the area
// where it shrinks, bilinear where it grows. Bit for bit what Pillow's resize with BILINEAR makes of the cropped
// picture when both sides change alike; otherwise Pillow may filter columns before rows, and numbers may differ by one.
// REQUIRES: the box lies within the picture; width and height are in [1, kMaxSide].
Picture Resize(const Picture& picture, const Box& box, int64_t width, int64_t height);

}  // namespace ampd::images
