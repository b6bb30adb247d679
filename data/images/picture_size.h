#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace ampd::images {

// Of either side. What a file may make a reader allocate is bounded by it and by kMaxPixels.
inline constexpr int64_t kMaxSide = 16384;
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// DATA_LOSS when a picture of this size is beyond the limits.
absl::Status CheckSize(int64_t width, int64_t height);

}  // namespace ampd::images
