#include "data/images/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ampd::images {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// A picture whose three channels all have these values.
Picture Grey(int64_t width, int64_t height, const std::vector<uint8_t>& values) {
  Picture picture{width, height, {}};
  for (const uint8_t value : values) {
    picture.pixels.insert(picture.pixels.end(), 3, value);
  }
  return picture;
}

std::vector<int> Resized(const Picture& picture, const Box& box, int64_t width, int64_t height) {
  const Picture resized = Resize(picture, box, width, height);
  EXPECT_EQ(resized.pixels.size(), static_cast<size_t>(width * height * 3));
  std::vector<int> values;
  for (size_t i = 0; i < resized.pixels.size(); i += 3) {
    EXPECT_EQ(resized.pixels[i], resized.pixels[i + 2]);
    values.push_back(resized.pixels[i]);
  }
  return values;
}

TEST(Resize, ToTheSameSize_ChangesNothing) {
  EXPECT_THAT(Resized(Grey(2, 2, {1, 2, 3, 255}), {0, 0, 2, 2}, 2, 2), ElementsAre(1, 2, 3, 255));
}

TEST(Resize, APart_IsCutOut) {
  EXPECT_THAT(Resized(Grey(3, 2, {1, 2, 3, 4, 5, 6}), {1, 1, 2, 1}, 2, 1), ElementsAre(5, 6));
}

// The expected values are computed by hand. The triangle filter reaches two source pixels to each side of the middle of
// a result pixel, and is cut off at the border of the picture.
TEST(Resize, HalfTheSize_WeighsTheNeighboursByDistance) {
  // The weights are 1/4, 3/4, 3/4 and 1/4, normalized to a sum of 1. The first result has no left neighbour.
  EXPECT_THAT(Resized(Grey(4, 1, {0, 0, 70, 140}), {0, 0, 4, 1}, 2, 1), ElementsAre(10, 90));
  EXPECT_THAT(Resized(Grey(1, 4, {0, 0, 70, 140}), {0, 0, 1, 4}, 1, 2), ElementsAre(10, 90));
}

TEST(Resize, TwiceTheSize_IsBilinear) {
  EXPECT_THAT(Resized(Grey(2, 1, {0, 100}), {0, 0, 2, 1}, 4, 1), ElementsAre(0, 25, 75, 100));
}

TEST(Resize, OneColour_StaysItself) {
  const std::vector<uint8_t> white(size_t{90} * 41, 255);
  for (const auto& [width, height] : {std::pair(1, 1), {7, 3}, {200, 90}, {33, 1}}) {
    EXPECT_THAT(Resized(Grey(90, 41, white), {0, 0, 90, 41}, width, height), Each(255));
  }
}

TEST(CentredBox, HasTheSidesOfTheResultAndLiesInTheMiddle) {
  const auto box = [](int64_t width, int64_t height, int64_t to_width, int64_t to_height) {
    const Box found = CentredBox(Picture{width, height, {}}, to_width, to_height);
    return std::vector<int64_t>{found.left, found.top, found.width, found.height};
  };
  EXPECT_THAT(box(100, 60, 32, 32), ElementsAre(20, 0, 60, 60));
  EXPECT_THAT(box(60, 100, 32, 32), ElementsAre(0, 20, 60, 60));
  EXPECT_THAT(box(100, 60, 50, 30), ElementsAre(0, 0, 100, 60));
  EXPECT_THAT(box(100, 60, 40, 10), ElementsAre(0, 17, 100, 25));
  EXPECT_THAT(box(1, 5000, 16384, 1), ElementsAre(0, 2499, 1, 1));
}

}  // namespace
}  // namespace ampd::images
