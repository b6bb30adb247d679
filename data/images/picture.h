#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/images/picture_size.h"

// PNG and JPEG files as pixels.
namespace ampd::images {

struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;  // (height, width, 3), red, green and blue
};

// The picture in the content of a file, which its first bytes tell to be PNG or JPEG. Colours are taken as they are
// stored, as Pillow's convert("RGB") does: grey becomes three equal channels, transparency is dropped, 16 bits become
// 8; colour profiles, gamma and the orientation that cameras note are not applied. DATA_LOSS saying what is wrong: a
// file of another kind, larger than the limits, cut off or damaged anywhere, or a JPEG of CMYK colours.
absl::StatusOr<Picture> DecodePicture(std::string_view content);

// The two decoders. REQUIRES: the content begins as their files do.
absl::StatusOr<Picture> DecodePng(std::string_view content);
absl::StatusOr<Picture> DecodeJpeg(std::string_view content);

}  // namespace ampd::images
