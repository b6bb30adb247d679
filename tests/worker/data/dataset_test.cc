#include "worker/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "ATen/ops/equal.h"
#include "base/error.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/dataset-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Write("images", std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x00\xff\x33\x66", 20));
    Write("labels", std::string("\0\0\x08\x01\0\0\0\x02\x01\x00", 10));
    Write("three", std::string("\0\0\x08\x01\0\0\0\x03\x01\x00\x00", 11));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const char* name, const std::string& content) { std::ofstream(root_ / name, std::ios::binary) << content; }

  std::filesystem::path root_;
};

TEST_F(DatasetTest, IdxPixels_AreNormalisedAndGatheredByIndex) {
  const auto data = Dataset::ReadIdx({.images = {root_, "images", "the images"},
                                      .labels = {root_, "labels", "the labels"},
                                      .mean = 0.5,
                                      .deviation = 0.25,
                                      .num_classes = 2});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 2);
  const Dataset::Samples samples = data->Get({1, 0, 1});
  EXPECT_THAT(samples.images.sizes().vec(), ElementsAre(3, 1, 1, 2));
  EXPECT_FLOAT_EQ(samples.images.data_ptr<float>()[0], (51 / 255.0f - 0.5f) / 0.25f);
  EXPECT_FLOAT_EQ(samples.images.data_ptr<float>()[3], 2.0f);
  EXPECT_THAT(std::vector<int64_t>(samples.labels.data_ptr<int64_t>(), samples.labels.data_ptr<int64_t>() + 3),
              ElementsAre(0, 1, 0));
}

TEST_F(DatasetTest, MoreLabelsThanImages_IsADataError) {
  const auto data = Dataset::ReadIdx(
      {.images = {root_, "images", "the images"}, .labels = {root_, "three", "the labels"}, .num_classes = 2});
  EXPECT_EQ(ReasonOf(data.status()), "DATA_ERROR");
  EXPECT_EQ(data.status().message(), "the labels: 3 labels for 2 images in the images");
}

TEST_F(DatasetTest, SyntheticData_DependsOnTheSeedAndTheSplitAlone) {
  const Dataset::Synthetic source = {.shape = {4, 5}, .num_classes = 3, .num_samples = 30, .seed = 1};
  Dataset::Synthetic evaluation = source;
  evaluation.evaluation = true;
  Dataset::Synthetic other = source;
  other.seed = 2;
  const at::Tensor images = Dataset::MakeSynthetic(source)->Get({0, 7}).images;
  EXPECT_TRUE(at::equal(images, Dataset::MakeSynthetic(source)->Get({0, 7}).images));
  EXPECT_FALSE(at::equal(images, Dataset::MakeSynthetic(evaluation)->Get({0, 7}).images));
  EXPECT_FALSE(at::equal(images, Dataset::MakeSynthetic(other)->Get({0, 7}).images));
}

TEST_F(DatasetTest, WithoutNoise_SyntheticTrainingAndEvaluationShareThePrototypes) {
  Dataset::Synthetic source = {.shape = {6}, .num_classes = 3, .num_samples = 9, .seed = 1, .noise = 0};
  const auto train = Dataset::MakeSynthetic(source);
  source.evaluation = true;
  const auto eval = Dataset::MakeSynthetic(source);
  EXPECT_TRUE(at::equal(train->Get({2, 5, 8}).images, eval->Get({8, 2, 2}).images));
}

TEST_F(DatasetTest, SyntheticNoise_IsStandardNormal) {
  const auto data = Dataset::MakeSynthetic({.shape = {50}, .num_classes = 1, .num_samples = 2000, .seed = 4});
  const auto clean = Dataset::MakeSynthetic({.shape = {50}, .num_classes = 1, .num_samples = 1, .seed = 4, .noise = 0});
  std::vector<int64_t> all(2000);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<int64_t>(i);
  }
  const at::Tensor noise = data->Get(all).images.sub(clean->Get({0}).images);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.015);  // over 4 standard errors of 100,000 samples
  EXPECT_NEAR(noise.pow(2).mean().item<double>(), 1, 0.02);
  EXPECT_NEAR(noise.pow(4).mean().item<double>(), 3, 0.15);
}

TEST_F(DatasetTest, ImpossibleSyntheticSources_AreDataErrors) {
  for (const Dataset::Synthetic& source :
       {Dataset::Synthetic{.shape = {0}, .num_classes = 1, .num_samples = 1},
        Dataset::Synthetic{.shape = {4}, .num_classes = 0, .num_samples = 1},
        Dataset::Synthetic{.shape = {4}, .num_classes = 1, .num_samples = 0},
        Dataset::Synthetic{.shape = {int64_t{1} << 40, int64_t{1} << 40}, .num_classes = 1, .num_samples = 1},
        Dataset::Synthetic{.shape = {1 << 20}, .num_classes = 1, .num_samples = 1 << 20}}) {
    EXPECT_EQ(ReasonOf(Dataset::MakeSynthetic(source).status()), "DATA_ERROR");
  }
}

}  // namespace
}  // namespace ampd::data
