#include "worker/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "ATen/ops/equal.h"
#include "ATen/ops/full.h"
#include "base/error.h"
#include "tests/data/npy_bytes.h"
#include "tests/worker/data/numbers.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::StartsWith;

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

TEST_F(DatasetTest, IdxPixelsOfAModelWithoutClasses_NeedNoLabels) {
  const auto data = Dataset::ReadIdx({.images = {root_, "images", "the images"}, .labels = {}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 2);
  EXPECT_FLOAT_EQ(data->Get({1}).images.data_ptr<float>()[0], 51 / 255.0f);
  EXPECT_EQ(data->Get({1}).labels.item<int64_t>(), 0);
}

std::vector<int64_t> Numbers(const at::Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), tensor.data_ptr<int64_t>() + tensor.numel()};
}

// Returns a text file's content: the 11 tokens from 20 to 30.
std::string Text() {
  std::string text;
  for (char token = 20; token <= 30; ++token) {
    text += {token, '\0'};
  }
  return text;
}

TEST_F(DatasetTest, WindowsOfAText_LieEndToEndAndAreLabelledByTheNextTokens) {
  Write("text", Text());
  const auto data = Dataset::ReadText({.file = {root_, "text", "the text"}, .sequence_length = 3, .vocabulary = 31});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->input_names(), ElementsAre("input_ids"));
  EXPECT_EQ(data->size(), 3);  // 10 labels fill three windows; one label is left over.
  EXPECT_EQ(data->sample_elements(), 3);
  const Dataset::Samples samples = data->Get({2, 0});
  EXPECT_THAT(samples.images.sizes().vec(), ElementsAre(2, 3));
  EXPECT_THAT(Numbers(samples.images), ElementsAre(26, 27, 28, 20, 21, 22));
  EXPECT_THAT(samples.labels.sizes().vec(), ElementsAre(2, 3));
  EXPECT_THAT(Numbers(samples.labels), ElementsAre(27, 28, 29, 21, 22, 23));
  EXPECT_EQ(samples.bytes(), 2 * 2 * 3 * 8);
}

TEST_F(DatasetTest, ATextThatJustFillsItsWindows_IsUsedToItsLastToken) {
  Write("text", Text());
  const auto data = Dataset::ReadText({.file = {root_, "text", "the text"}, .sequence_length = 5, .vocabulary = 31});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 2);
  EXPECT_THAT(Numbers(data->Get({1}).labels), ElementsAre(26, 27, 28, 29, 30));
}

TEST_F(DatasetTest, AWindowWhoseLastLabelIsMissing_IsNotUsed) {
  Write("text", Text().substr(0, 20));
  const auto data = Dataset::ReadText({.file = {root_, "text", "the text"}, .sequence_length = 5, .vocabulary = 31});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 1);
}

TEST_F(DatasetTest, ALimitOfAText_CountsWindows) {
  Write("text", Text());
  const auto data =
      Dataset::ReadText({.file = {root_, "text", "the text"}, .sequence_length = 3, .limit = 2, .vocabulary = 27});
  ASSERT_TRUE(data.ok()) << data.status();  // Tokens after the limit are outside the vocabulary and must not be read.
  EXPECT_EQ(data->size(), 2);
  EXPECT_THAT(Numbers(data->Get({1}).labels), ElementsAre(24, 25, 26));
}

TEST_F(DatasetTest, ATextWithoutLabels_HasAWindowMoreWhereOnlyTheLastLabelIsMissing) {
  Write("text", Text());
  const auto read = [this](bool needs_labels, int64_t limit) {
    return Dataset::ReadText({.file = {root_, "text", "the text"},
                              .sequence_length = 11,
                              .limit = limit,
                              .vocabulary = 31,
                              .needs_labels = needs_labels});
  };
  EXPECT_FALSE(read(true, 0).ok());
  for (const int64_t limit : {0, 1}) {
    const auto data = read(false, limit);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->size(), 1);
    EXPECT_THAT(Numbers(data->Get({0}).labels), testing::Each(0));
    EXPECT_EQ(data->Get({0}).images.size(1), 11);
  }
}

TEST_F(DatasetTest, ATextShorterThanAWindow_IsADataError) {
  Write("text", Text());
  const auto data = Dataset::ReadText({.file = {root_, "text", "the text"}, .sequence_length = 11, .vocabulary = 31});
  EXPECT_EQ(ReasonOf(data.status()), "DATA_ERROR");
  EXPECT_EQ(data.status().message(), "the text: it has 11 tokens; one window of 11 and the token behind it are 12");
}

TEST_F(DatasetTest, MoreLabelsThanImages_IsADataError) {
  const auto data = Dataset::ReadIdx(
      {.images = {root_, "images", "the images"}, .labels = {root_, "three", "the labels"}, .num_classes = 2});
  EXPECT_EQ(ReasonOf(data.status()), "DATA_ERROR");
  EXPECT_EQ(data.status().message(), "the labels: 3 labels for 2 images in the images");
}

// Returns an array of uint8 of this shape, (N, D) or with more dimensions, with the elements 0, 1, 2, ...
Array Bytes(std::vector<int64_t> shape) {
  Array array{.shape = std::move(shape)};
  array.bytes.resize(ArrayBytes(array.type, array.shape, 1 << 20));
  std::iota(array.bytes.begin(), array.bytes.end(), uint8_t{0});
  return array;
}

std::vector<float> FirstSample(const absl::StatusOr<Dataset>& data) {
  const at::Tensor images = data->Get({0}).images.contiguous();
  return {images.data_ptr<float>(), images.data_ptr<float>() + images.numel()};
}

Dataset::Arrays TwoSamples(Array images) {
  return {.images = std::move(images), .labels = Bytes({2}), .images_name = "x", .labels_name = "y", .num_classes = 2};
}

TEST_F(DatasetTest, ChannelsOfArrays_ComeFirstAndHaveNumbersOfTheirOwn) {
  Dataset::Arrays source = TwoSamples(Bytes({2, 1, 2, 3}));  // One row of two pixels with three channels.
  source.channels_last = true;
  source.normalization = {.mean = {0, 1 / 255.0, 2 / 255.0}, .deviation = {1 / 255.0, 1 / 255.0, 3 / 255.0}};
  const auto data = Dataset::FromArrays(source);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->Get({0, 1}).images.sizes().vec(), ElementsAre(2, 3, 1, 2));
  EXPECT_THAT(FirstSample(data), Pointwise(FloatNear(1e-5), {0.0f, 3.0f, 0.0f, 3.0f, 0.0f, 1.0f}));
  source.channels_last = false;
  source.normalization = {};
  EXPECT_EQ(FirstSample(Dataset::FromArrays(source))[5], 5 / 255.0f);
}

TEST_F(DatasetTest, OneNormalization_HoldsForAllChannelsAndForFeatures) {
  Dataset::Arrays source = TwoSamples(Bytes({2, 2}));
  source.normalization = {.mean = {1 / 255.0}, .deviation = {2 / 255.0}};
  EXPECT_THAT(FirstSample(Dataset::FromArrays(source)), Pointwise(FloatNear(1e-5), {-0.5f, 0.0f}));
  source.images = Bytes({2, 2, 1, 1});
  EXPECT_THAT(FirstSample(Dataset::FromArrays(source)), Pointwise(FloatNear(1e-5), {-0.5f, 0.0f}));
}

TEST_F(DatasetTest, ImagesAsBytes_StandForTheSameNumbers) {
  Dataset::Arrays source = TwoSamples(Bytes({2, 3, 4, 4}));
  source.normalization = {.mean = {0.1, 0.2, 0.3}, .deviation = {0.5, 0.25, 2}};
  const auto data = Dataset::FromArrays(source);
  ASSERT_TRUE(data.ok()) << data.status();
  const Augmentation augmentation = {.crop_padding = 2, .flip = true, .seed = 7};
  const at::Tensor numbers = data->Get({1, 0}, augmentation, 3).images;
  const at::Tensor bytes = data->Get({1, 0}, augmentation, 3, Dataset::Pixels::kBytes, {}).images;
  ASSERT_EQ(bytes.scalar_type(), at::kByte);
  const at::Tensor scales = data->pixel_scales();
  ASSERT_THAT(scales.sizes().vec(), ElementsAre(3, 2));
  const auto column = [&scales](int64_t i) { return scales.select(1, i).view({1, 3, 1, 1}); };
  EXPECT_TRUE(bytes.to(at::kFloat).div(at::full({1}, 255.0F)).sub(column(0)).div(column(1)).equal(numbers));
  EXPECT_FALSE(Dataset::MakeSynthetic({.shape = {4}, .num_classes = 2, .num_samples = 4})->pixel_scales().defined());
}

TEST_F(DatasetTest, MemoryOfAnEarlierBatch_IsUsedAgainIfItFits) {
  const auto data = Dataset::FromArrays(TwoSamples(Bytes({2, 3, 4, 4})));
  ASSERT_TRUE(data.ok()) << data.status();
  const Dataset::Samples expected = data->Get({1, 0});
  Dataset::Samples old = data->Get({0, 0});
  const void* const memory = old.images.const_data_ptr();
  const Dataset::Samples again = data->Get({1, 0}, {}, 0, Dataset::Pixels::kNumbers, old);
  EXPECT_EQ(again.images.const_data_ptr(), memory);
  EXPECT_TRUE(again.images.equal(expected.images));
  EXPECT_TRUE(again.labels.equal(expected.labels));
  const Dataset::Samples smaller = data->Get({1}, {}, 0, Dataset::Pixels::kNumbers, old);
  EXPECT_NE(smaller.images.const_data_ptr(), memory);
  EXPECT_TRUE(smaller.images[0].equal(expected.images[0]));
}

TEST_F(DatasetTest, GreyImages_HaveAChannel) {
  EXPECT_THAT(Dataset::FromArrays(TwoSamples(Bytes({2, 3, 4})))->Get({0}).images.sizes().vec(),
              ElementsAre(1, 1, 3, 4));
}

TEST_F(DatasetTest, ElementsThatAreNotBytes_AreTakenAsTheyAre) {
  const auto first = [](Array images) { return FirstSample(Dataset::FromArrays(TwoSamples(std::move(images)))); };
  const std::vector<int64_t> shape = {2, 2};
  EXPECT_THAT(first(Numbers<int8_t>(ElementType::kInt8, shape, {-3, 7, 0, 0})), ElementsAre(-3, 7));
  EXPECT_THAT(first(Numbers<int16_t>(ElementType::kInt16, shape, {-300, 700, 0, 0})), ElementsAre(-300, 700));
  EXPECT_THAT(first(Numbers<int32_t>(ElementType::kInt32, shape, {-3, 70000, 0, 0})), ElementsAre(-3, 70000));
  EXPECT_THAT(first(Numbers<int64_t>(ElementType::kInt64, shape, {-3, 1 << 30, 0, 0})), ElementsAre(-3, 1 << 30));
  EXPECT_THAT(first(Numbers<uint16_t>(ElementType::kFloat16, shape, {0x3c00, 0xc500, 0, 0})), ElementsAre(1, -5));
  EXPECT_THAT(first(Numbers<float>(ElementType::kFloat32, shape, {0.5, -2, 0, 0})), ElementsAre(0.5, -2));
  EXPECT_THAT(first(Numbers<double>(ElementType::kFloat64, shape, {0.5, -2, 0, 0})), ElementsAre(0.5, -2));
}

TEST_F(DatasetTest, ArraysThatGrowBeyondTheLimitInMemory_AreDataErrors) {
  constexpr int64_t kCount = int64_t{1} << 29;  // 0.5 GiB of uint8 labels in a file become 4 GiB of int64 in memory.
  Dataset::Arrays source = TwoSamples(Bytes({2, 2}));
  source.images.shape = {kCount, 1};
  source.labels.shape = {kCount};
  const absl::Status status = Dataset::FromArrays(source).status();
  EXPECT_EQ(ReasonOf(status), "DATA_ERROR");
  EXPECT_THAT(std::string(status.message()), HasSubstr("take 4831838208 bytes in memory; at most 4294967296"));
}

TEST_F(DatasetTest, LabelsInAColumn_AreLabels) {
  Dataset::Arrays source = TwoSamples(Bytes({2, 2}));
  source.labels = Numbers<int64_t>(ElementType::kInt64, {2, 1}, {1, 0});
  const at::Tensor labels = Dataset::FromArrays(source)->Get({0, 1}).labels;
  EXPECT_THAT(labels.sizes().vec(), ElementsAre(2));
  EXPECT_EQ(labels.data_ptr<int64_t>()[0], 1);
}

using Kind = Targets::Kind;

// Makes a dataset of two samples with these targets.
absl::StatusOr<Dataset> Targeted(Kind kind, std::vector<int64_t> shape, Array labels) {
  Dataset::Arrays source = TwoSamples(Bytes({2, 2}));
  source.labels = std::move(labels);
  source.targets = {kind, std::move(shape)};
  return Dataset::FromArrays(std::move(source));
}

TEST_F(DatasetTest, NumbersOfAnyType_AreLabelsInTheModelsShape) {
  const auto data =
      Targeted(Kind::kNumbers, {3}, Numbers<double>(ElementType::kFloat64, {2, 3}, {0.5, -1, 2, 3, 4, 1e-3}));
  ASSERT_TRUE(data.ok()) << data.status();
  const at::Tensor labels = data->Get({1, 0, 1}).labels;
  EXPECT_EQ(labels.scalar_type(), at::kFloat);
  EXPECT_THAT(labels.sizes().vec(), ElementsAre(3, 3));
  EXPECT_THAT(std::vector<float>(labels.data_ptr<float>(), labels.data_ptr<float>() + 6),
              ElementsAre(3, 4, 1e-3f, 0.5, -1, 2));
  const auto column = Targeted(Kind::kNumbers, {1}, Numbers<int64_t>(ElementType::kInt64, {2}, {7, -8}));
  ASSERT_TRUE(column.ok()) << column.status();
  EXPECT_THAT(column->Get({1}).labels.sizes().vec(), ElementsAre(1, 1)) << "as the model has it";
  EXPECT_EQ(column->Get({1}).labels.item<float>(), -8);
}

TEST_F(DatasetTest, DecisionsAndIntegersOfAnyType_AreLabels) {
  const auto decisions = Targeted(Kind::kDecisions, {2}, Numbers<uint8_t>(ElementType::kBool, {2, 2}, {1, 0, 0, 1}));
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  EXPECT_EQ(decisions->Get({1}).labels.data_ptr<float>()[1], 1);
  EXPECT_TRUE(Targeted(Kind::kDecisions, {2}, Numbers<float>(ElementType::kFloat32, {2, 2}, {1, 0, 0, 1})).ok());
  EXPECT_TRUE(Targeted(Kind::kDecisions, {2}, Numbers<int64_t>(ElementType::kInt64, {2, 2}, {1, 0, 0, 1})).ok());
  const auto integers = Targeted(Kind::kIntegers, {}, Numbers<int16_t>(ElementType::kInt16, {2, 1}, {-100, 5}));
  ASSERT_TRUE(integers.ok()) << integers.status();
  EXPECT_EQ(integers->Get({0}).labels.item<int64_t>(), -100);
  EXPECT_THAT(integers->Get({0, 1}).labels.sizes().vec(), ElementsAre(2));
}

TEST_F(DatasetTest, LabelsThatTheModelDoesNotTake_AreDataErrorsThatNameTheSample) {
  const auto error_of = [](Kind kind, std::vector<int64_t> shape, Array labels) {
    const absl::Status status = Targeted(kind, std::move(shape), std::move(labels)).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error_of(Kind::kNumbers, {2}, Numbers<float>(ElementType::kFloat32, {2, 2}, {0, 1, 2, NAN})),
            "y: sample 1 has a label that is nan in float32");
  EXPECT_EQ(error_of(Kind::kNumbers, {2}, Numbers<double>(ElementType::kFloat64, {2, 2}, {0, 1e300, 0, 0})),
            "y: sample 0 has a label that is inf in float32");
  EXPECT_EQ(error_of(Kind::kDecisions, {2}, Numbers<int32_t>(ElementType::kInt32, {2, 2}, {0, 1, 2, 0})),
            "y: sample 1 has a label that is 2; it must be 0 or 1");
  EXPECT_EQ(error_of(Kind::kDecisions, {2}, Numbers<float>(ElementType::kFloat32, {2, 2}, {0, 0.5, 1, 0})),
            "y: sample 0 has a label that is 0.5; it must be 0 or 1");
  EXPECT_EQ(error_of(Kind::kNumbers, {3}, Numbers<float>(ElementType::kFloat32, {2, 2}, {0, 1, 2, 3})),
            "y: float32 of (2, 2); the model takes labels that are numbers of (2, 3)");
  EXPECT_EQ(error_of(Kind::kIntegers, {}, Numbers<float>(ElementType::kFloat32, {2}, {0, 1})),
            "y: float32 of (2); the model takes labels that are integers of (2)");
}

TEST_F(DatasetTest, BooleansThatAreNeither_AreDataErrors) {
  Write("x.npy", Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2, 1), }", std::string("\0\2", 2)));
  Write("y.npy", Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", std::string("\1\0", 2)));
  const auto data =
      Dataset::ReadNumpy({.images = {root_, "x.npy", "x"}, .labels = {root_, "y.npy", "y"}, .num_classes = 2});
  EXPECT_EQ(data.status().message(), "x: element 1 is the byte 2; a boolean is 0 or 1");
}

TEST_F(DatasetTest, ArraysThatAreNoImagesAndLabels_AreDataErrors) {
  const auto error_of = [](Dataset::Arrays source) {
    const absl::Status status = Dataset::FromArrays(std::move(source)).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error_of(TwoSamples(Bytes({2}))), StartsWith("x: uint8 of (2); images are of 2 dimensions"));
  EXPECT_THAT(error_of(TwoSamples(Bytes({2, 1, 1, 1, 1}))), StartsWith("x: uint8 of (2, 1, 1, 1, 1); images are"));
  EXPECT_THAT(error_of(TwoSamples(Bytes({0, 2}))), StartsWith("x: uint8 of (0, 2); images are"));
  EXPECT_EQ(error_of(TwoSamples(Bytes({3, 2}))), "y: labels of (2) for images of (3, 2) in x");
  EXPECT_EQ(error_of(TwoSamples(Numbers<float>(ElementType::kFloat32, {2, 2}, {0, 0, 0, INFINITY}))),
            "x: sample 1 has an element that is inf in float32");
  EXPECT_EQ(error_of(TwoSamples(Numbers<double>(ElementType::kFloat64, {2, 2}, {0, 1e300, 0, 0}))),
            "x: sample 0 has an element that is inf in float32");
  Dataset::Arrays source = TwoSamples(Bytes({2, 3, 1, 1}));
  source.normalization.mean = {0, 0};
  EXPECT_EQ(error_of(source), "x: 2 numbers of mean for images of 3 channels");
  source = TwoSamples(Bytes({2, 2}));
  source.labels = Numbers<float>(ElementType::kFloat32, {2}, {0, 1});
  EXPECT_EQ(error_of(source),
            "y: float32 of (2); labels are integers of (samples) or (samples, 1). An exported model takes numbers by "
            "the head REGRESSION, and 0 or 1 for each class by MULTI_LABEL");
  source.labels = Bytes({2, 2});
  EXPECT_THAT(error_of(source), StartsWith("y: uint8 of (2, 2); labels are integers of (samples) or (samples, 1)"));
  source.labels = Numbers<int64_t>(ElementType::kInt64, {2}, {1, -1});
  EXPECT_EQ(error_of(source), "y: label -1 of sample 1 is not 0 to 1");
  source.labels = Numbers<int64_t>(ElementType::kInt64, {2}, {2, 3});
  EXPECT_EQ(error_of(source), "y: label 2 of sample 0 is not 0 to 1");
}

TEST_F(DatasetTest, CifarFiles_AreImagesOfThreeChannels) {
  Write("batch", std::string("\x01", 1) + std::string(1024, '\xff') + std::string(2048, '\0'));
  const auto data = Dataset::ReadCifar({.files = {{root_, "batch", "the batch"}},
                                        .normalization = {.mean = {0.5, 0, 0}, .deviation = {0.5, 1, 1}},
                                        .num_classes = 10});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->Get({0}).images.sizes().vec(), ElementsAre(1, 3, 32, 32));
  EXPECT_EQ(FirstSample(data)[0], 1);
  EXPECT_EQ(FirstSample(data)[1024], 0);
  EXPECT_EQ(data->Get({0}).labels.item<int64_t>(), 1);
}

TEST_F(DatasetTest, NumpyFiles_AreTwoArrays) {
  Write("x.npy", Npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }", std::string("\x05\0\x06\0", 4)));
  Write("y.npy", Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", std::string("\1\0", 2)));
  const auto data = Dataset::ReadNumpy(
      {.images = {root_, "x.npy", "x"}, .labels = {root_, "y.npy", "y"}, .limit = 1, .num_classes = 2});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 1);
  EXPECT_THAT(FirstSample(data), ElementsAre(5));
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
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.015);  // The bound is more than 4 standard errors of the mean.
  EXPECT_NEAR(noise.pow(2).mean().item<double>(), 1, 0.02);
  EXPECT_NEAR(noise.pow(4).mean().item<double>(), 3, 0.15);
}

TEST_F(DatasetTest, TextsOfAClass_AreFilledUpAndMasked) {
  Write("texts",
        "{\"input_ids\": [5, 6, 7, 8, 9], \"token_type_ids\": [0, 0, 1, 1, 1], \"label\": 1}\n"
        "{\"input_ids\": [4], \"label\": 0}\n");
  const auto data = Dataset::ReadLabelledTexts({.file = {root_, "texts", "the texts"},
                                                .sequence_length = 3,
                                                .pad_token = 2,
                                                .vocabulary = 10,
                                                .num_types = 2,
                                                .num_classes = 2});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_FALSE(data->is_text());
  EXPECT_THAT(data->input_names(), ElementsAre("input_ids", "attention_mask", "token_type_ids"));
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->sample_elements(), 3);
  EXPECT_EQ(data->num_cut(), 1);
  const Dataset::Samples samples = data->Get({1, 0, 1});
  const auto rows = [](const at::Tensor& tensor) {
    EXPECT_THAT(tensor.sizes().vec(), ElementsAre(3, 3));
    const at::Tensor numbers = tensor.to(at::kLong);
    return std::vector<int64_t>(numbers.data_ptr<int64_t>(), numbers.data_ptr<int64_t>() + numbers.numel());
  };
  EXPECT_THAT(rows(samples.images), ElementsAre(4, 2, 2, 5, 6, 7, 4, 2, 2));
  EXPECT_EQ(samples.others.at("attention_mask").scalar_type(), at::kBool);
  EXPECT_THAT(rows(samples.others.at("attention_mask")), ElementsAre(1, 0, 0, 1, 1, 1, 1, 0, 0));
  EXPECT_THAT(rows(samples.others.at("token_type_ids")), ElementsAre(0, 0, 0, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(std::vector<int64_t>(samples.labels.data_ptr<int64_t>(), samples.labels.data_ptr<int64_t>() + 3),
              ElementsAre(0, 1, 0));
  EXPECT_EQ(samples.bytes(), 3 * (3 * (8 + 1 + 8) + 8));
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

TEST(Dataset, ArraysOfAModelWithoutClasses_NeedNoLabels) {
  const auto data = Dataset::FromArrays(
      {.images = {.type = ElementType::kUint8, .shape = {3, 2}, .bytes = {0, 51, 102, 153, 204, 255}}, .labels = {}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_FLOAT_EQ(data->Get({2}).images.data_ptr<float>()[1], 1);
  EXPECT_THAT(Numbers(data->Get({2, 0}).labels), ElementsAre(0, 0));
}

}  // namespace
}  // namespace ampd::data
