#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/images/picture.h"

namespace ampd::images {

// Functions that make the content of picture files for tests.

// A PNG file. `color_type` and `bit_depth` are constants of png.h. `pixels` are the file's bytes, row by row without
// padding. `interlaced` selects Adam7. `text`, if not empty, is stored deflated before the pixels.
std::string PngFile(int64_t width, int64_t height, int color_type, int bit_depth, const std::vector<uint8_t>& pixels,
                    bool interlaced = false, std::string text = "");

// A JPEG file of the picture, with full quality and without subsampling.
std::string JpegFile(const Picture& picture);

// A picture in which neighbouring pixels differ.
Picture Coloured(int64_t width, int64_t height);

}  // namespace ampd::images
