#pragma once

#include <cstdint>

#include "data/images/picture.h"

namespace ampd::images {

// A rectangle in a picture, in pixels.
struct Box {
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
};

// The largest rectangle in the middle of a picture that has the aspect ratio width / height.
Box CentredBox(const Picture& picture, int64_t width, int64_t height);

// Resizes the part `box` of a picture to width x height. Uses a triangle filter: it averages when shrinking, and
// interpolates bilinearly when growing. If both sides change in the same ratio, the result equals, bit for bit, what
// Pillow returns when it crops the picture to `box` and resizes it with BILINEAR. Otherwise Pillow may filter columns
// before rows, and values may differ by one. REQUIRES: the box lies within the picture; width and height are from 1 to
// kMaxSide.
Picture Resize(const Picture& picture, const Box& box, int64_t width, int64_t height);

}  // namespace ampd::images
