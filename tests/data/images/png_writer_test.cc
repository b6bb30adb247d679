#include "data/images/png_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "data/images/picture.h"

namespace ampd::images {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPlenty = 1 << 20;

Raster Noise(int64_t width, int64_t height, int64_t channels) {
  SeededRandom random(static_cast<uint64_t>(1000 * width + 10 * height + channels));
  Raster raster{.width = width, .height = height, .channels = channels, .pixels = {}};
  for (int64_t i = 0; i < width * height * channels; ++i) {
    raster.pixels.push_back(static_cast<uint8_t>(random.Next()));
  }
  return raster;
}

// The raster's pixels as red, green and blue, in the form in which DecodePng returns them.
std::vector<uint8_t> Coloured(const Raster& raster) {
  std::vector<uint8_t> pixels;
  for (const uint8_t value : raster.pixels) {
    pixels.insert(pixels.end(), raster.channels == 1 ? 3 : 1, value);
  }
  return pixels;
}

TEST(EncodePng, PixelsComeBackFromTheReader) {
  for (const int64_t channels : {1, 3}) {
    for (const auto& [width, height] : {std::pair<int64_t, int64_t>(1, 1), {13, 1}, {1, 9}, {7, 5}, {300, 200}}) {
      SCOPED_TRACE(testing::Message() << width << " x " << height << " x " << channels);
      const Raster raster = Noise(width, height, channels);
      const auto file = EncodePng(raster, kPlenty);
      ASSERT_TRUE(file.ok()) << file.status();
      const auto picture = DecodePng(*file);
      ASSERT_TRUE(picture.ok()) << picture.status();
      EXPECT_EQ(picture->width, width);
      EXPECT_EQ(picture->height, height);
      EXPECT_EQ(picture->pixels, Coloured(raster));
    }
  }
}

TEST(EncodePng, TheSamePixels_AreTheSameBytes) {
  EXPECT_EQ(EncodePng(Noise(20, 20, 3), kPlenty).value(), EncodePng(Noise(20, 20, 3), kPlenty).value());
}

// Tries every size limit below the file's size, so that writing fails in the header, in the pixels and at the end.
TEST(EncodePng, AFileThatWouldBeLarger_IsRefusedWhereverItIsFull) {
  const Raster raster = Noise(24, 24, 3);
  const size_t size = EncodePng(raster, kPlenty)->size();
  ASSERT_TRUE(EncodePng(raster, size).ok());
  for (size_t room = 0; room < size; ++room) {
    const absl::Status status = EncodePng(raster, room).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << room << " of " << size << ": " << status;
    EXPECT_EQ(status.message(), absl::StrCat("a PNG of 24 x 24 pixels has more than ", room, " bytes"));
  }
}

TEST(EncodePng, WhatIsNoPicture_IsRefused) {
  const auto error_of = [](const Raster& raster) {
    const absl::Status status = EncodePng(raster, kPlenty).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error_of({.width = 0, .height = 4, .channels = 1, .pixels = {}}), HasSubstr("a PNG is 0 x 4 pixels"));
  EXPECT_THAT(error_of({.width = kMaxSide + 1, .height = 1, .channels = 1, .pixels = {}}), HasSubstr("at most 16384"));
  EXPECT_THAT(error_of({.width = 1, .height = 1, .channels = 2, .pixels = {1, 2}}), HasSubstr("2 channels"));
  EXPECT_EQ(error_of({.width = 2, .height = 1, .channels = 3, .pixels = {1, 2, 3, 4, 5}}),
            "a PNG of 2 x 1 pixels of 3 bytes; 5 bytes were given");
}

}  // namespace
}  // namespace ampd::images
