#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// Encodes pixels as PNG files.
namespace ampd::images {

struct Raster {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 1;         // 1: grey; 3: red, green and blue.
  std::vector<uint8_t> pixels;  // (height, width, channels)
};

// Returns the content of a PNG file with these pixels in 8 bits per channel, without metadata. With one version of
// zlib, the same pixels give the same bytes. INVALID_ARGUMENT for a size beyond kMaxSide or kMaxPixels, another number
// of channels, or a wrong number of pixels; RESOURCE_EXHAUSTED if the file would be larger than `max_bytes`.
absl::StatusOr<std::string> EncodePng(const Raster& raster, size_t max_bytes);

}  // namespace ampd::images
