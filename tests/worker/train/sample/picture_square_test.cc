#include "worker/train/sample/picture_square.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/random.h"
#include "data/images/png_writer.h"
#include "models/samples.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;

TEST(PictureSquare, GreyPicturesLieInRowsWithTwoPixelsBetween) {
  PictureSquare square(2, 1, 2);
  square.SetRow(0, {-1, -0.5, 0, 1, 0.2F, 0.2F, 0.2F, 0.2F});
  square.SetRow(1, {1, 1, 1, 1, -1, 1, -1, 1});
  EXPECT_EQ(square.raster().width, 6);
  EXPECT_EQ(square.raster().height, 6);
  EXPECT_EQ(square.raster().channels, 1);
  EXPECT_THAT(square.raster().pixels, ElementsAre(0, 64, 0, 0, 153, 153,     //
                                                  128, 255, 0, 0, 153, 153,  //
                                                  0, 0, 0, 0, 0, 0,          //
                                                  0, 0, 0, 0, 0, 0,          //
                                                  255, 255, 0, 0, 0, 255,    //
                                                  255, 255, 0, 0, 0, 255));
}

TEST(PictureSquare, ChannelsOfAPictureBecomeColoursOfItsPixels) {
  PictureSquare square(1, 3, 2);
  square.SetRow(0, {-1, 1, -1, -1, 1, -1, -1, -1, 0, 0, 0, -1});
  EXPECT_THAT(square.raster().pixels, ElementsAre(0, 255, 128, 255, 0, 128, 0, 0, 128, 0, 0, 0));
}

TEST(PictureSquare, WhatIsBeyondWhiteAndBlack_IsThat) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  PictureSquare square(1, 1, 2);
  square.SetRow(0, {-kInfinity, 1e30F, kInfinity, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_THAT(square.raster().pixels, ElementsAre(0, 255, 255, 0));
}

// Noise can't be compressed, so a square of noise with the maximum number of rows makes the largest possible file. This
// file must not exceed the maximum size of a sample.
TEST(PictureSquare, OfNoise_FitsTheRoomOfASample) {
  SeededRandom random(3);
  for (const auto& [image_size, channels] : {std::pair<int64_t, int64_t>(28, 1), {28, 3}, {32, 3}, {64, 1}, {64, 3}}) {
    const int32_t rows = models::MaxSampleRows(image_size, channels);
    PictureSquare square(rows, channels, image_size);
    std::vector<float> noise(static_cast<size_t>(rows * channels * image_size * image_size));
    for (int64_t row = 0; row < rows; ++row) {
      for (float& value : noise) {
        value = static_cast<float>(random.Next() >> 40) * 0x1p-23F - 1;
      }
      square.SetRow(row, noise);
    }
    const auto file = images::EncodePng(square.raster(), models::kMaxSampleBytes);
    EXPECT_TRUE(file.ok()) << rows << " rows of " << image_size << " x " << channels << ": " << file.status();
  }
}

}  // namespace
}  // namespace ampd::train
