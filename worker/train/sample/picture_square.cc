#include "worker/train/sample/picture_square.h"

#include <algorithm>
#include <cmath>

#include "models/samples.h"

namespace ampd::train {
namespace {

uint8_t Level(float value) {
  return std::isnan(value) ? 0 : static_cast<uint8_t>(std::lround((std::clamp(value, -1.0F, 1.0F) + 1) * 127.5F));
}

}  // namespace

PictureSquare::PictureSquare(int64_t rows, int64_t channels, int64_t image_size)
    : rows_(rows), image_size_(image_size) {
  raster_.width = raster_.height = models::SampleSide(rows, image_size);
  raster_.channels = channels;
  raster_.pixels.resize(static_cast<size_t>(raster_.width * raster_.height * channels));
}

void PictureSquare::SetRow(int64_t row, absl::Span<const float> pictures) {
  const int64_t step = image_size_ + models::kSampleGap;
  const float* from = pictures.data();
  for (int64_t column = 0; column < rows_; ++column) {
    for (int64_t channel = 0; channel < raster_.channels; ++channel) {
      for (int64_t y = 0; y < image_size_; ++y) {
        const int64_t first = (row * step + y) * raster_.width + column * step;
        for (int64_t x = 0; x < image_size_; ++x) {
          raster_.pixels[static_cast<size_t>((first + x) * raster_.channels + channel)] = Level(*from++);
        }
      }
    }
  }
}

}  // namespace ampd::train
