#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "data/images/png_writer.h"

namespace ampd::train {

// Pictures side by side and in rows, black between them. No LibTorch. Thread-compatible.
class PictureSquare {
 public:
  // `rows`: and columns; pictures are (channels, image_size, image_size).
  PictureSquare(int64_t rows, int64_t channels, int64_t image_size);

  // Puts pictures (rows, C, S, S) into a row. -1 is black and 1 white, or all of a colour; what lies beyond counts as
  // these, and what is no number as black. REQUIRES: 0 <= row < rows, and as many numbers as the pictures have.
  void SetRow(int64_t row, absl::Span<const float> pictures);

  const images::Raster& raster() const { return raster_; }

 private:
  const int64_t rows_;
  const int64_t image_size_;
  images::Raster raster_;
};

}  // namespace ampd::train
