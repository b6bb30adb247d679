#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/images/picture.h"

namespace ampd::images {

// Files of pictures for tests.

// `color_type` and `bit_depth`: constants of png.h. `pixels`: the file's bytes, row by row without padding.
// `interlaced`: use Adam7. `text`: if not empty, stored deflated before the pixels.
std::string PngFile(int64_t width, int64_t height, int color_type, int bit_depth, const std::vector<uint8_t>& pixels,
                    bool interlaced = false, std::string text = "");

// With full quality and without subsampling.
std::string JpegFile(const Picture& picture);

// A picture in which the pixels differ.
Picture Coloured(int64_t width, int64_t height);

}  // namespace ampd::images
