#include "worker/train/plan/fields.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder/builder.h"

namespace ampd::train {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::TensorType;
using graph::ValueId;
using ::testing::ElementsAre;
using ::testing::Optional;

TensorType Numbers(int64_t width) { return {Dtype::kFloat32, {Dim::Batch(), width}}; }
const TensorType kMask = {Dtype::kBool, {Dim::Batch(), 8}};

graph::Graph Built(GraphBuilder builder) { return std::move(builder).Build().value(); }

// Returns a classifier with inputs of these names and types. The classifier computes only with the first input, which
// must therefore be of a floating-point type.
graph::Graph Classifier(const std::vector<std::pair<std::string, TensorType>>& inputs) {
  GraphBuilder builder("classifier");
  std::vector<ValueId> values;
  for (const auto& [name, type] : inputs) {
    values.push_back(builder.Input(name, type));
  }
  builder.Output("logits", builder.Linear("head", values.front(), 4));
  return Built(std::move(builder));
}

data::Dataset Pixels() {
  return *data::Dataset::MakeSynthetic({.shape = {1, 4, 4}, .num_classes = 4, .num_samples = 4});
}

std::string MessageOf(const absl::Status& status) {
  EXPECT_EQ(ReasonOf(status), "SPEC_ERROR") << status;
  return std::string(status.message());
}

TEST(ArraysTakenBy, AModelOfOtherNames_AreFieldsAlone) {
  GraphBuilder builder("tower");
  const ValueId numeric = builder.Input("numeric", Numbers(13));
  const ValueId words = builder.Input("words", {Dtype::kInt64, {Dim::Batch(), 5}});
  const ValueId table = builder.Parameter("table", {50, 8}, graph::Initializer::Constant(0));
  builder.Output("other", builder.Embedding("table", words, table));
  builder.Output("logits", builder.Linear("head", numeric, 4));
  const auto taken = ArraysTakenBy(Built(std::move(builder)));
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_FALSE(taken->images);
  ASSERT_EQ(taken->fields.size(), 2u);
  EXPECT_EQ(taken->fields[0].name, "numeric");
  EXPECT_EQ(taken->fields[0].type, data::ElementType::kFloat32);
  EXPECT_THAT(taken->fields[0].shape, ElementsAre(13));
  EXPECT_EQ(taken->fields[0].vocabulary, std::nullopt);
  EXPECT_EQ(taken->fields[1].name, "words");
  EXPECT_EQ(taken->fields[1].type, data::ElementType::kInt64);
  EXPECT_THAT(taken->fields[1].vocabulary, Optional(50));
}

TEST(ArraysTakenBy, ImagesAreNoField) {
  const auto alone = ArraysTakenBy(Classifier({{"images", Numbers(16)}}));
  EXPECT_TRUE(alone->images);
  EXPECT_TRUE(alone->fields.empty());
  const auto more = ArraysTakenBy(Classifier({{"images", Numbers(16)}, {"mask", kMask}}));
  EXPECT_TRUE(more->images);
  ASSERT_EQ(more->fields.size(), 1u);
  EXPECT_EQ(more->fields[0].name, "mask");
}

TEST(ArraysTakenBy, NoiseOfAGanAndLabelsOfAnOwnLoss_AreNotOfAFile) {
  GraphBuilder gan("gan");
  const ValueId real = gan.Input("x", Numbers(4));
  gan.Input("noise", Numbers(2));
  const ValueId logits = gan.Linear("discriminator", real, 1);
  gan.Output("discriminator_loss", logits);
  gan.Output("generator_loss", logits);
  const auto of_gan = ArraysTakenBy(Built(std::move(gan)));
  ASSERT_TRUE(of_gan.ok()) << of_gan.status();
  ASSERT_EQ(of_gan->fields.size(), 1u);
  EXPECT_EQ(of_gan->fields[0].name, "x");
  const graph::Graph other = Classifier({{"x", Numbers(16)}, {"noise", Numbers(2)}});
  EXPECT_EQ(ArraysTakenBy(other)->fields.size(), 2u) << "no head draws it";
}

TEST(ArraysTakenBy, InputsThatNoArrayIsReadAs_AreErrors) {
  EXPECT_EQ(
      MessageOf(ArraysTakenBy(Classifier({{"x", Numbers(4)}, {"y", {Dtype::kFloat64, {Dim::Batch(), 3}}}})).status()),
      "the model's input y is float64[B, 3]; arrays are read as float32, int64, int32, uint8 or bool of [B, ...]");
  EXPECT_EQ(MessageOf(ArraysTakenBy(Classifier({{"x", Numbers(4)}, {"y", {Dtype::kFloat32, {3}}}})).status()),
            "the model's input y is float32[3]; arrays are read as float32, int64, int32, uint8 or bool of [B, ...]");
}

TEST(CheckSamples, EveryInputIsInTheData) {
  EXPECT_TRUE(CheckSamples(Pixels(), Classifier({{"images", Numbers(16)}})).ok()) << "16 features of a row of pixels";
  EXPECT_EQ(MessageOf(CheckSamples(Pixels(), Classifier({{"numeric", Numbers(16)}}))),
            "the data has images and the model takes numeric");
  EXPECT_EQ(MessageOf(CheckSamples(Pixels(), Classifier({{"images", Numbers(16)}, {"mask", kMask}}))),
            "the model takes mask, which the data does not have");
  EXPECT_EQ(MessageOf(CheckSamples(Pixels(), Classifier({{"images", Numbers(9)}}))),
            "a sample has 16 elements and the model takes 9");
}

TEST(CheckSamples, EveryInputIsOfTheDatasTypeAndSize) {
  const TensorType whole = {Dtype::kInt64, {Dim::Batch(), 16}};
  EXPECT_EQ(MessageOf(CheckSamples(Pixels(), Classifier({{"x", Numbers(1)}, {"images", whole}}))),
            "the model takes x, which the data does not have");
  GraphBuilder builder("whole");
  const ValueId images = builder.Input("images", whole);
  const ValueId table = builder.Parameter("table", {50, 8}, graph::Initializer::Constant(0));
  builder.Output("logits", builder.Linear("head", builder.Flatten("flat", builder.Embedding("e", images, table)), 4));
  EXPECT_EQ(MessageOf(CheckSamples(Pixels(), Built(std::move(builder)))),
            "the data has images as float32 of (1, 4, 4) and the model takes int64[B, 16]");
}

TEST(NoiseShapeOf, IsThatOfAModelWithLossesAlone) {
  EXPECT_EQ(NoiseShapeOf(Classifier({{"x", Numbers(16)}, {"noise", Numbers(2)}})), std::nullopt);
}

}  // namespace
}  // namespace ampd::train
