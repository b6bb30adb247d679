#include "worker/data/augmentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "ATen/ops/stack.h"
#include "worker/data/dataset.h"

namespace ampd::data {
namespace {

constexpr int64_t kNumSamples = 40;
constexpr int64_t kChannels = 3;
constexpr int64_t kRows = 5;
constexpr int64_t kColumns = 7;

template <typename Element>
Dataset Images(ElementType type) {
  Array images{.type = type, .shape = {kNumSamples, kChannels, kRows, kColumns}};
  std::vector<Element> elements(kNumSamples * kChannels * kRows * kColumns);
  std::generate(elements.begin(), elements.end(),
                [number = 0]() mutable { return static_cast<Element>((number += 37) % 251); });
  images.bytes.assign(reinterpret_cast<const uint8_t*>(elements.data()),
                      reinterpret_cast<const uint8_t*>(elements.data() + elements.size()));
  return *Dataset::FromArrays({.images = std::move(images),
                               .labels = {.shape = {kNumSamples}, .bytes = std::vector<uint8_t>(kNumSamples, 1)},
                               .normalization = {.mean = {0.5, 0.25, 0}, .deviation = {0.5, 2, 3}},
                               .num_classes = 2});
}

// Applies the change to one image, element by element. Each element of the result is the element of the padded image at
// the shifted and, if `change.mirrored`, mirrored position. `black`: the value of the padding, per channel.
at::Tensor Changed(const at::Tensor& image, const at::Tensor& black, const ImageChange& change, int64_t padding) {
  at::Tensor out = image.clone();
  for (int64_t c = 0; c < kChannels; ++c) {
    for (int64_t y = 0; y < kRows; ++y) {
      for (int64_t x = 0; x < kColumns; ++x) {
        const int64_t from_y = y + change.top - padding;
        const int64_t from_x = (change.mirrored ? kColumns - 1 - x : x) + change.left - padding;
        const bool inside = from_y >= 0 && from_y < kRows && from_x >= 0 && from_x < kColumns;
        out[c][y][x] = inside ? image[c][from_y][from_x] : black[c];
      }
    }
  }
  return out;
}

void ExpectChanged(const Dataset& data, const at::Tensor& black, const Augmentation& augmentation) {
  std::vector<int64_t> all(kNumSamples);
  std::iota(all.begin(), all.end(), int64_t{0});
  const at::Tensor plain = data.Get(all).images;
  const at::Tensor changed = data.Get(all, augmentation, 2).images;
  for (const int64_t i : all) {
    EXPECT_TRUE(
        at::equal(changed[i], Changed(plain[i], black, ChangeOf(augmentation, 2, i), augmentation.crop_padding)))
        << "sample " << i;
  }
}

TEST(Augmentation, Images_AreCroppedOutOfABlackBorderAndMirrored) {
  const float black[] = {-1, -0.125, 0};  // The values to which the normalization maps a zero of the file, per channel.
  const at::Tensor of_channels = at::stack({at::full({}, black[0]), at::full({}, black[1]), at::full({}, black[2])});
  for (const int64_t padding : {0, 1, 4, 9}) {  // With a padding of 9, some crops contain only padding.
    for (const bool flip : {false, true}) {
      SCOPED_TRACE(testing::Message() << padding << " " << flip);
      const Augmentation augmentation = {.crop_padding = padding, .flip = flip, .seed = 3};
      ExpectChanged(Images<uint8_t>(ElementType::kUint8), of_channels, augmentation);
      ExpectChanged(Images<float>(ElementType::kFloat32), of_channels, augmentation);
    }
  }
}

TEST(Augmentation, ASample_IsChangedTheSameInWhateverBatchItIs) {
  const Dataset data = Images<uint8_t>(ElementType::kUint8);
  const Augmentation augmentation = {.crop_padding = 2, .flip = true, .seed = 3};
  const at::Tensor together = data.Get({5, 9, 11}, augmentation, 1).images;
  EXPECT_TRUE(at::equal(together[2], data.Get({11}, augmentation, 1).images[0]));
  EXPECT_TRUE(at::equal(together[0], data.Get({11, 9, 5}, augmentation, 1).images[2]));
}

TEST(Augmentation, Changes_DependOnSeedEpochAndSample) {
  const Augmentation augmentation = {.crop_padding = 64, .flip = true, .seed = 3};
  Augmentation other_seed = augmentation;
  other_seed.seed = 4;
  const auto differ = [](auto one, auto other) {
    int count = 0;
    for (int64_t i = 0; i < 100; ++i) {
      count += one(i) == other(i) ? 0 : 1;
    }
    return count;
  };
  const auto here = [&](int64_t i) { return ChangeOf(augmentation, 7, i); };
  EXPECT_EQ(differ(here, here), 0);
  EXPECT_GT(differ(here, [&](int64_t i) { return ChangeOf(other_seed, 7, i); }), 90);
  EXPECT_GT(differ(here, [&](int64_t i) { return ChangeOf(augmentation, 8, i); }), 90);
  EXPECT_GT(differ(here, [&](int64_t i) { return ChangeOf(augmentation, 7, i + 1); }), 90);
}

// In many draws, each position and mirroring must be drawn as often as in a fair draw, within 5 standard deviations.
TEST(Augmentation, PlacesAndMirrorImages_AreDrawnFairly) {
  constexpr int kDraws = 90000;
  const Augmentation augmentation = {.crop_padding = 1, .flip = true, .seed = 11};
  std::map<std::pair<int64_t, int64_t>, int> places;
  int num_mirrored = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    const ImageChange change = ChangeOf(augmentation, 0, i);
    ++places[{change.top, change.left}];
    num_mirrored += change.mirrored ? 1 : 0;
  }
  EXPECT_EQ(places.size(), 9u);
  for (const auto& [place, count] : places) {
    EXPECT_NEAR(count, kDraws / 9.0, 5 * 94) << place.first << " " << place.second;
  }
  EXPECT_NEAR(num_mirrored, kDraws / 2.0, 5 * 150);
}

TEST(Augmentation, WhatIsNotAskedFor_DoesNotHappen) {
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(ChangeOf({.seed = 1}, 0, i), ImageChange());
    EXPECT_FALSE(ChangeOf({.crop_padding = 3, .seed = 1}, 0, i).mirrored);
  }
}

}  // namespace
}  // namespace ampd::data
