#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace ampd::images {

// Limit of either side. Together with kMaxPixels it bounds the memory that a file can make a reader allocate.
inline constexpr int64_t kMaxSide = 16384;
inline constexpr int64_t kMaxPixels = int64_t{1} << 26;

// DATA_LOSS if a picture of this size exceeds the limits.
absl::Status CheckSize(int64_t width, int64_t height);

}  // namespace ampd::images
