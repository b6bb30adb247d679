#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace ampd::images {

// The maximum width and height of a picture, in pixels. Together with kMaxPixels it bounds the memory that a file can
// make a reader allocate.
inline constexpr int64_t kMaxSide = 16384;
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// Returns DATA_LOSS if the size exceeds the limits above.
absl::Status CheckSize(int64_t width, int64_t height);

}  // namespace ampd::images
