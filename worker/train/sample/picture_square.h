#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "data/images/png_writer.h"

namespace ampd::train {

// A square of pictures with black lines between them. Does not use LibTorch. Thread-compatible.
class PictureSquare {
 public:
  // `rows`: the number of rows, and also of columns. Each picture is (channels, image_size, image_size).
  PictureSquare(int64_t rows, int64_t channels, int64_t image_size);

  // Sets the pictures (rows, C, S, S) of one row. -1 is black; 1 is white, or the full colour of a channel. Values
  // outside this range are clamped, and NaN is black. REQUIRES: 0 <= row < rows, and the span has as many numbers as
  // the pictures.
  void SetRow(int64_t row, absl::Span<const float> pictures);

  const images::Raster& raster() const { return raster_; }

 private:
  const int64_t rows_;
  const int64_t image_size_;
  images::Raster raster_;
};

}  // namespace ampd::train
