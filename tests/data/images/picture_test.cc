#include "data/images/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <sys/resource.h>

#include <cstdlib>

#include "tests/data/images/picture_files.h"

namespace ampd::images {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& content) {
  const absl::Status status = DecodePicture(content).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  return std::string(status.message());
}

std::vector<uint8_t> Pixels(const std::string& content) {
  const auto picture = DecodePicture(content);
  EXPECT_TRUE(picture.ok()) << picture.status();
  return picture.ok() ? picture->pixels : std::vector<uint8_t>();
}

TEST(DecodePicture, PngOfEveryKind_IsRedGreenAndBlue) {
  EXPECT_THAT(Pixels(PngFile(2, 1, PNG_COLOR_TYPE_RGB, 8, {1, 2, 3, 4, 5, 6})), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Pixels(PngFile(2, 1, PNG_COLOR_TYPE_GRAY, 8, {7, 9})), ElementsAre(7, 7, 7, 9, 9, 9));
  EXPECT_THAT(Pixels(PngFile(2, 1, PNG_COLOR_TYPE_GRAY, 1, {0x40})), ElementsAre(0, 0, 0, 255, 255, 255));
  EXPECT_THAT(Pixels(PngFile(1, 1, PNG_COLOR_TYPE_RGBA, 8, {1, 2, 3, 0})), ElementsAre(1, 2, 3))
      << "what is not seen is there";
  EXPECT_THAT(Pixels(PngFile(1, 1, PNG_COLOR_TYPE_GRAY_ALPHA, 8, {8, 0})), ElementsAre(8, 8, 8));
  EXPECT_THAT(Pixels(PngFile(2, 1, PNG_COLOR_TYPE_PALETTE, 8, {1, 0})), ElementsAre(250, 100, 50, 1, 2, 3));
  EXPECT_THAT(Pixels(PngFile(1, 1, PNG_COLOR_TYPE_RGB, 16, {0xff, 0xff, 0x80, 0x80, 0, 0})), ElementsAre(255, 128, 0));
}

TEST(DecodePicture, AnInterlacedPng_IsThePlainOne) {
  const Picture picture = Coloured(13, 9);
  const auto decoded = DecodePicture(PngFile(13, 9, PNG_COLOR_TYPE_RGB, 8, picture.pixels, /*interlaced=*/true));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->width, 13);
  EXPECT_EQ(decoded->height, 9);
  EXPECT_EQ(decoded->pixels, picture.pixels);
}

TEST(DecodePicture, AJpeg_IsNearlyWhatItWasMadeOf) {
  const Picture picture = Coloured(20, 10);
  const auto decoded = DecodePicture(JpegFile(picture));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->width, 20);
  EXPECT_EQ(decoded->height, 10);
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    EXPECT_LE(std::abs(decoded->pixels[i] - picture.pixels[i]), 6) << i;
  }
}

TEST(DecodePicture, AFileThatIsCutAnywhere_IsRefused) {
  const Picture picture = Coloured(16, 16);
  for (const std::string& whole : {PngFile(16, 16, PNG_COLOR_TYPE_RGB, 8, picture.pixels), JpegFile(picture)}) {
    ASSERT_TRUE(DecodePicture(whole).ok());
    for (size_t size = 0; size + 2 < whole.size(); ++size) {
      EXPECT_FALSE(DecodePicture(whole.substr(0, size)).ok()) << size << " of " << whole.size();
    }
  }
}

TEST(DecodePicture, ADamagedPng_IsRefusedByItsChecksums) {
  const std::string whole = PngFile(16, 16, PNG_COLOR_TYPE_RGB, 8, Coloured(16, 16).pixels);
  for (size_t at = 8; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(DecodePicture(damaged).ok()) << at;
  }
}

// A PNG file that is only a header, with this size and a correct checksum.
std::string HugePng(uint32_t width, uint32_t height) {
  std::string ihdr = "IHDR";
  for (const uint32_t number : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      ihdr += static_cast<char>(number >> shift);
    }
  }
  ihdr += std::string("\x08\x02\0\0\0", 5);
  uint32_t crc = 0xffffffff;
  for (const char byte : ihdr) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
    }
  }
  crc = ~crc;
  std::string file("\x89PNG\r\n\x1a\n\0\0\0\x0d", 12);
  file += ihdr;
  for (int shift = 24; shift >= 0; shift -= 8) {
    file += static_cast<char>(crc >> shift);
  }
  return file + std::string("\0\0\0\x01IDAT", 8) + "x....";
}

TEST(DecodePicture, HugePictures_AreRefusedBeforeTheirPixelsAreTouched) {
  EXPECT_EQ(ErrorOf(HugePng(1'000'000, 1'000'000)),
            "is 1000000 x 1000000 pixels; at most 16384 a side and 67108864 in all");
  EXPECT_THAT(ErrorOf(HugePng(16384, 16384)), StartsWith("is 16384 x 16384 pixels"));
  std::string jpeg = JpegFile(Coloured(8, 8));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x40\x01\x40\x01");
  EXPECT_THAT(ErrorOf(jpeg), StartsWith("is 16385 x 16385 pixels"));
}

// A PNG file of one pixel with `count` compressed texts, each of which unpacks to `size` bytes.
std::string PngWithTexts(size_t count, size_t size) {
  const std::string whole =
      PngFile(1, 1, PNG_COLOR_TYPE_RGB, 8, {1, 2, 3}, /*interlaced=*/false, std::string(size, 'a'));
  constexpr size_t kAround = 12;  // Bytes of a chunk's length, name and checksum.
  const size_t at = whole.find("zTXt") - 4;
  size_t length = 0;
  for (const char byte : whole.substr(at, 4)) {
    length = length << 8 | static_cast<unsigned char>(byte);
  }
  const std::string chunk = whole.substr(at, length + kAround);
  std::string file = whole.substr(0, at);
  for (size_t i = 0; i < count; ++i) {
    file += chunk;
  }
  return file + whole.substr(at + chunk.size());
}

int64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss << 10;
}

TEST(DecodePicture, TextsInAPng_TakeNoMemory) {
  constexpr size_t kTextBytes = size_t{6} << 20;
  constexpr size_t kNumTexts = 64;
  const std::string file = PngWithTexts(kNumTexts, kTextBytes);
  const int64_t before = PeakBytes();
  EXPECT_THAT(Pixels(file), ElementsAre(1, 2, 3));
  EXPECT_LT(PeakBytes() - before, static_cast<int64_t>(kNumTexts * kTextBytes / 4));
}

TEST(DecodePicture, WhatIsNoPicture_IsRefused) {
  EXPECT_EQ(ErrorOf(""), "is neither PNG nor JPEG");
  EXPECT_EQ(ErrorOf("GIF89a"), "is neither PNG nor JPEG");
  EXPECT_THAT(ErrorOf("\xff\xd8\xff\xe0 and no more"), HasSubstr("no sound JPEG"));
  EXPECT_THAT(ErrorOf("\x89PNG\r\n\x1a\n and no more"), HasSubstr("no sound PNG"));
}

}  // namespace
}  // namespace ampd::images
