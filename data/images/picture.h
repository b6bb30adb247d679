#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/images/picture_size.h"

// Decodes PNG and JPEG files into pixels.
namespace ampd::images {

struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;  // (height, width, 3): red, green and blue.
};

// Decodes the content of a PNG or JPEG file, which is recognized by its first bytes. Colours are used as stored, as in
// Pillow's convert("RGB"): grey becomes three equal channels, transparency is dropped, and 16 bits become 8. Colour
// profiles, gamma and the orientation that cameras record are not applied. Returns DATA_LOSS, with a message that names
// the fault, if the content is of another kind, exceeds the limits on size, is cut off or damaged anywhere, or is a
// JPEG with CMYK colours.
absl::StatusOr<Picture> DecodePicture(std::string_view content);

// The decoders that DecodePicture calls. Their results and errors are those of DecodePicture. REQUIRES: the content
// begins with the signature of the decoder's format.
absl::StatusOr<Picture> DecodePng(std::string_view content);
absl::StatusOr<Picture> DecodeJpeg(std::string_view content);

}  // namespace ampd::images
