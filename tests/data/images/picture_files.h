#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/images/picture.h"

namespace ampd::images {

// The files of pictures that tests read.

// `color_type` and `bit_depth` of png.h; `pixels` are what such a file holds, row behind row without padding. With
// `interlaced` by Adam7. `text`, unless empty, stands before the pixels, deflated.
std::string PngFile(int64_t width, int64_t height, int color_type, int bit_depth, const std::vector<uint8_t>& pixels,
                    bool interlaced = false, std::string text = "");

// Of full quality and without subsampling.
std::string JpegFile(const Picture& picture);

// A picture whose pixels differ.
Picture Coloured(int64_t width, int64_t height);

}  // namespace ampd::images
