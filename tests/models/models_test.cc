#include "models/models.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "graph/print.h"
#include "models/dcgan.h"
#include "models/gan.h"
#include "models/gpt.h"
#include "models/resnet.h"
#include "models/samples.h"
#include "tests/golden_file.h"

namespace ampd::models {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::ModelSpec Spec(const std::string& text) {
  v1::ModelSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

// Builds the model of the spec `text`, and returns "field: description" for every violation.
std::vector<std::string> ViolationsOf(const std::string& text) {
  std::vector<std::string> lines;
  for (const FieldViolation& violation : ampd::ViolationsOf(BuildModel(Spec(text)).status())) {
    lines.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  return lines;
}

// Builds the model of the spec `text`, and returns one line per parameter: "classifier.0.bias [128]".
std::string Parameters(const std::string& text) {
  const auto graph = BuildModel(Spec(text));
  EXPECT_TRUE(graph.ok()) << graph.status();
  std::string lines;
  for (const graph::State& parameter : graph->parameters()) {
    absl::StrAppend(&lines, parameter.name, " ", graph::ToText(graph->type(parameter.value)), "\n");
  }
  return lines;
}

// The number of elements of all parameters of the model with the spec `text`.
int64_t NumNumbers(const std::string& text) {
  const auto graph = BuildModel(Spec(text));
  EXPECT_TRUE(graph.ok()) << graph.status();
  int64_t sum = 0;
  for (const graph::State& parameter : graph->parameters()) {
    int64_t product = 1;
    for (const graph::Dim& dim : graph->type(parameter.value).shape) {
      product *= dim.factor();
    }
    sum += product;
  }
  return sum;
}

TEST(Lenet, GraphOfTheDefaultsIsGolden) {
  ExpectGolden("tests/models/golden/lenet.txt", graph::ToText(BuildModel(Spec("lenet {}")).value()));
}

TEST(Mlp, GraphOfTheDefaultsIsGolden) {
  ExpectGolden("tests/models/golden/mlp.txt", graph::ToText(BuildModel(Spec("mlp {}")).value()));
}

TEST(Lenet, NamesAndShapesOfOtherSizesAreGolden) {
  ExpectGolden("tests/models/golden/lenet_parameters.txt",
               Parameters("lenet {num_classes: 3 widths: [4, 5, 6] hidden: 7 in_channels: 3 image_size: 33}"));
}

TEST(Mlp, NamesAndShapesOfOtherSizesAreGolden) {
  ExpectGolden("tests/models/golden/mlp_parameters.txt",
               Parameters("mlp {in_features: 12 hidden: [8, 6, 4] num_classes: 2}"));
}

TEST(Gpt, GraphOfOneLayerIsGolden) {
  ExpectGolden(
      "tests/models/golden/gpt.txt",
      graph::ToText(
          BuildGpt({.num_layers = 1, .width = 8, .num_heads = 2, .vocabulary = 5, .sequence_length = 4}).value()));
}

TEST(Gpt, EveryWrongFieldIsNamedWithItsLimit) {
  std::vector<std::string> lines;
  for (const FieldViolation& violation :
       ampd::ViolationsOf(BuildGpt({.num_layers = 0, .width = 10, .num_heads = 3, .vocabulary = 1}).status())) {
    lines.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  EXPECT_THAT(lines, ElementsAre("model.gpt.num_layers: 0 is not within 1 to 256",
                                 "model.gpt.vocabulary: 1 is not within 2 to 1048576",
                                 "model.gpt.num_heads: 3 does not divide the width, 10"));
}

TEST(Gan, GraphOfOneChannelIsGolden) {
  ExpectGolden(
      "tests/models/golden/gan.txt",
      graph::ToText(
          BuildGan({.noise_features = 2, .generator_width = 3, .discriminator_width = 4, .image_size = 6}).value()));
}

TEST(Gan, EveryWrongFieldIsNamedWithItsLimit) {
  std::vector<std::string> lines;
  for (const FieldViolation& violation :
       ampd::ViolationsOf(BuildGan({.noise_features = 0, .discriminator_width = 5000, .image_size = 1}).status())) {
    lines.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  EXPECT_THAT(lines, ElementsAre("model.gan.noise_features: 0 is not within 1 to 1048576",
                                 "model.gan.discriminator_width: 5000 is not within 1 to 4096",
                                 "model.gan.image_size: 1 is not within 2 to 4096"));
}

graph::Graph Dcgan(const std::string& text) {
  v1::DcganSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return BuildDcgan(spec).value();
}

TEST(Dcgan, GraphOfTheSmallestIsGolden) {
  ExpectGolden("tests/models/golden/dcgan.txt",
               graph::ToText(Dcgan("latent_size: 3 generator_features: 2 discriminator_features: 2")));
}

// The generator alone has the parameters and buffers of the whole model whose names begin with "generator.".
TEST(Dcgan, TheGeneratorAlone_HasThePartOfTheModelThatMakesImages) {
  for (const char* text : {"latent_size: 3", "image_size: 64 channels: 3"}) {
    const graph::Graph model = Dcgan(text);
    v1::JobSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, spec.mutable_model()->mutable_dcgan()));
    const auto generator = BuildGenerator(spec);
    ASSERT_TRUE(generator.ok()) << generator.status();
    std::map<std::string, graph::TensorType> of_model;
    for (const auto* states : {&model.parameters(), &model.buffers()}) {
      for (const graph::State& state : *states) {
        of_model[state.name] = model.type(state.value);
      }
    }
    size_t num_found = 0;
    for (const auto* states : {&generator->parameters(), &generator->buffers()}) {
      for (const graph::State& state : *states) {
        ASSERT_TRUE(of_model.contains(state.name)) << state.name;
        EXPECT_EQ(of_model[state.name], generator->type(state.value)) << state.name;
        ++num_found;
      }
    }
    const auto is_of_it = [](const auto& one) { return one.first.starts_with("generator."); };
    EXPECT_EQ(num_found, static_cast<size_t>(std::count_if(of_model.begin(), of_model.end(), is_of_it)));
    ASSERT_EQ(generator->inputs().size(), 1u);
    EXPECT_EQ(generator->type(generator->inputs()[0]), model.type(*model.FindInput("noise")));
    EXPECT_EQ(generator->type(*generator->FindOutput("images")), model.type(*model.FindInput("images")));
  }
}

TEST(BuildGenerator, OfALanguageModel_IsTheModelOverTheJobsLength) {
  v1::JobSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "model {gpt2 {n_layer: 1 n_embd: 8 n_head: 2 n_positions: 16 vocab_size: 64}} "
      "data {train {tokens {sequence_length: 12}}}",
      &spec));
  EXPECT_EQ(graph::ToText(BuildGenerator(spec).value()), graph::ToText(BuildModel(spec).value()));
}

TEST(BuildGenerator, OfAModelThatMakesNothing_IsRefused) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_lenet();
  const auto violations = ampd::ViolationsOf(BuildGenerator(spec).status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "sample");
  EXPECT_EQ(violations[0].description, "model.lenet draws no samples; model.gpt2 and model.dcgan do");
}

TEST(MaxSampleRows, IsWhatOneMebibyteHoldsOfNoise) {
  EXPECT_EQ(MaxSampleRows(28, 1), 16);
  EXPECT_EQ(MaxSampleRows(32, 3), 16);
  EXPECT_EQ(MaxSampleRows(64, 1), 15);
  EXPECT_EQ(MaxSampleRows(64, 3), 8);
}

TEST(Dcgan, NamesAndShapesOfTheTutorialsSizesAreGolden) {
  std::string lines;
  const graph::Graph model = Dcgan("image_size: 64 channels: 3");
  for (const graph::State& parameter : model.parameters()) {
    absl::StrAppend(&lines, parameter.name, " ", graph::ToText(model.type(parameter.value)), "\n");
  }
  ExpectGolden("tests/models/golden/dcgan_parameters.txt", lines);
}

TEST(Dcgan, EveryWrongFieldIsNamedWithItsLimit) {
  v1::DcganSpec spec;
  spec.set_image_size(30);
  spec.set_channels(-1);
  spec.set_latent_size(-1);
  spec.set_generator_features(5000);
  spec.set_discriminator_features(-3);
  std::vector<std::string> lines;
  for (const FieldViolation& violation : ampd::ViolationsOf(BuildDcgan(spec).status())) {
    lines.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  EXPECT_THAT(lines, ElementsAre("model.dcgan.image_size: 30 is not 28, 32 or 64",
                                 "model.dcgan.channels: -1 is not within 1 to 4096",
                                 "model.dcgan.latent_size: -1 is not within 1 to 1048576",
                                 "model.dcgan.generator_features: 5000 is not within 1 to 4096",
                                 "model.dcgan.discriminator_features: -3 is not within 1 to 4096"));
}

TEST(Resnet, GraphOfTwoStagesIsGolden) {
  ExpectGolden("tests/models/golden/resnet.txt",
               graph::ToText(BuildResnet({.widths = {4, 6}, .blocks = {1, 1}, .image_size = 8}).value()));
}

TEST(Resnet, EveryWrongFieldIsNamedWithItsLimit) {
  std::vector<std::string> lines;
  for (const FieldViolation& violation :
       ampd::ViolationsOf(BuildResnet({.widths = {4, 0}, .blocks = {0, 1}, .num_classes = 1}).status())) {
    lines.push_back(absl::StrCat(violation.field, ": ", violation.description));
  }
  EXPECT_THAT(lines, ElementsAre("model.resnet.blocks[0]: 0 is not within 1 to 64",
                                 "model.resnet.widths[1]: 0 is not within 1 to 4096",
                                 "model.resnet.num_classes: 1 is not within 2 to 65536"));
}

// The golden file has one line per parameter of torchvision's resnet50().named_parameters().
TEST(Resnet, NamesAndShapesOfTheFiftyLayersAreGolden) {
  ExpectGolden("tests/models/golden/resnet50_parameters.txt", Parameters("resnet {depth: 50}"));
}

TEST(Resnet, HasTorchvisionsNumberOfParameters) {
  EXPECT_EQ(NumNumbers("resnet {}"), 11'689'512);
  EXPECT_EQ(NumNumbers("resnet {depth: 34}"), 21'797'672);
  EXPECT_EQ(NumNumbers("resnet {depth: 50}"), 25'557'032);
  EXPECT_EQ(NumNumbers("resnet {stem: CIFAR in_channels: 1 image_size: 28}"), 11'172'810);
}

// The golden file has one line per parameter of torchvision's efficientnet_b0().named_parameters().
TEST(EfficientNet, NamesAndShapesAreGolden) {
  ExpectGolden("tests/models/golden/efficientnet_b0_parameters.txt", Parameters("efficientnet_b0 {}"));
}

// The golden file has the nodes of the first block with a residual connection and stochastic depth.
TEST(EfficientNet, GraphOfABlockIsGolden) {
  const std::string text = graph::ToText(BuildModel(Spec("efficientnet_b0 {image_size: 32}")).value());
  std::string block;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StrContains(line, "  # features.2.1")) {
      absl::StrAppend(&block, line, "\n");
    }
  }
  ExpectGolden("tests/models/golden/efficientnet_b0_block.txt", block);
}

TEST(EfficientNet, HasTorchvisionsNumberOfParameters) {
  EXPECT_EQ(NumNumbers("efficientnet_b0 {}"), 5'288'548);
  EXPECT_EQ(NumNumbers("efficientnet_b0 {num_classes: 10 in_channels: 1}"), 4'019'782);
}

TEST(EfficientNet, StochasticDepthRisesByTheBlock) {
  std::vector<double> probabilities;
  const auto collect = [&probabilities](const std::string& text, const std::string& op) {
    probabilities.clear();
    const graph::Graph model = BuildModel(Spec(text)).value();
    for (const graph::Node& node : model.nodes()) {
      if (node.op == op) {
        probabilities.push_back(std::get<double>(*node.Find("p")));
      }
    }
    return probabilities;
  };
  EXPECT_THAT(collect("efficientnet_b0 {stochastic_depth_prob: 0.5}", "aten.feature_dropout.default"),
              ElementsAre(0.5 * 2 / 16, 0.5 * 4 / 16, 0.5 * 6 / 16, 0.5 * 7 / 16, 0.5 * 9 / 16, 0.5 * 10 / 16,
                          0.5 * 12 / 16, 0.5 * 13 / 16, 0.5 * 14 / 16));
  EXPECT_THAT(collect("efficientnet_b0 {}", "aten.dropout.default"), ElementsAre(0.2));
  EXPECT_THAT(collect("efficientnet_b0 {stochastic_depth_prob: 0}", "aten.feature_dropout.default"), IsEmpty());
  EXPECT_THAT(collect("efficientnet_b0 {dropout: 0}", "aten.dropout.default"), IsEmpty());
}

TEST(EfficientNet, EveryWrongFieldIsNamedWithItsLimit) {
  EXPECT_THAT(ViolationsOf("efficientnet_b0 {num_classes: 1 in_channels: -1 image_size: 5000 dropout: 1 "
                           "stochastic_depth_prob: -0.5}"),
              ElementsAre("model.efficientnet_b0.num_classes: 1 is not within 2 to 65536",
                          "model.efficientnet_b0.in_channels: -1 is not within 1 to 4096",
                          "model.efficientnet_b0.image_size: 5000 is not within 1 to 4096",
                          "model.efficientnet_b0.dropout: 1 is not at least 0 and below 1",
                          "model.efficientnet_b0.stochastic_depth_prob: -0.5 is not at least 0 and below 1"));
  EXPECT_THAT(ViolationsOf("efficientnet_b0 {image_size: 1}"), IsEmpty());
}

constexpr char kTinyGpt2[] = "gpt2 {n_layer: 1 n_embd: 8 n_head: 2 n_positions: 6 vocab_size: 5}";

TEST(Gpt2, GraphOfAShorterSequenceThanItsLongestIsGolden) {
  ExpectGolden("tests/models/golden/gpt2.txt", graph::ToText(BuildModel(Spec(kTinyGpt2), 4).value()));
}

// The golden file has one line per parameter of GPT2LMHeadModel(GPT2Config()).named_parameters().
TEST(Gpt2, NamesAndShapesOfTheSmallOneAreGolden) {
  ExpectGolden("tests/models/golden/gpt2_parameters.txt", Parameters("gpt2 {}"));
}

TEST(Gpt2, HasTransformersNumberOfParameters) {
  EXPECT_EQ(NumNumbers("gpt2 {}"), 124'439'808);
  EXPECT_EQ(NumNumbers("gpt2 {size: MEDIUM}"), 354'823'168);
  EXPECT_EQ(NumNumbers("gpt2 {size: LARGE}"), 774'030'080);
  EXPECT_EQ(NumNumbers("gpt2 {size: XL}"), 1'557'611'200);
  EXPECT_EQ(NumNumbers("gpt2 {size: XL n_layer: 12 n_embd: 768 n_head: 12}"), 124'439'808);
}

TEST(Gpt2, WithoutDropoutThereIsNone) {
  v1::ModelSpec spec = Spec(kTinyGpt2);
  const auto num_dropouts = [&spec] {
    const graph::Graph model = BuildModel(spec).value();
    return std::count_if(model.nodes().begin(), model.nodes().end(),
                         [](const graph::Node& node) { return node.op == "aten.dropout.default"; });
  };
  EXPECT_EQ(num_dropouts(), 3);  // One after the embeddings and one at the end of each branch of the block.
  spec.mutable_gpt2()->set_dropout(0);
  EXPECT_EQ(num_dropouts(), 0);
}

TEST(Gpt2, EveryWrongFieldIsNamedWithItsLimit) {
  EXPECT_THAT(
      ViolationsOf("gpt2 {n_layer: -1 n_embd: 10 n_head: 3 n_positions: -5 vocab_size: 1 dropout: 1}"),
      ElementsAre("model.gpt2.n_layer: -1 is not within 1 to 256", "model.gpt2.n_head: 3 does not divide n_embd, 10",
                  "model.gpt2.n_positions: -5 is not within 1 to 1048576",
                  "model.gpt2.vocab_size: 1 is not within 2 to 1048576",
                  "model.gpt2.dropout: 1 is not at least 0 and below 1"));
  EXPECT_THAT(ViolationsOf("gpt2 {size: 9}"), ElementsAre("model.gpt2.size: 9 is not SMALL, MEDIUM, LARGE or XL"));
}

TEST(Gpt2, ALengthBeyondItsPositionsIsNamedAsTheData) {
  for (const int64_t length : {-1, 7}) {
    const auto violations = ampd::ViolationsOf(BuildModel(Spec(kTinyGpt2), length).status());
    ASSERT_EQ(violations.size(), 1) << length;
    EXPECT_EQ(violations[0].field, "data.train.tokens.sequence_length");
    EXPECT_EQ(violations[0].description, absl::StrCat("is ", length, "; must be 1 to model.gpt2.n_positions, 6"));
  }
}

constexpr char kTinyBert[] =
    "bert_classifier {num_hidden_layers: 1 hidden_size: 8 num_attention_heads: 2 max_position_embeddings: 6 "
    "vocab_size: 5 num_labels: 3}";

TEST(Bert, GraphOfAShorterSequenceThanItsLongestIsGolden) {
  ExpectGolden("tests/models/golden/bert_classifier.txt", graph::ToText(BuildModel(Spec(kTinyBert), 4).value()));
}

// The golden file has one line per parameter of BertForSequenceClassification(BertConfig()).named_parameters().
TEST(Bert, NamesAndShapesOfTheDefaultsAreGolden) {
  ExpectGolden("tests/models/golden/bert_classifier_parameters.txt", Parameters("bert_classifier {}"));
}

TEST(Bert, HasTransformersNumberOfParameters) {
  EXPECT_EQ(NumNumbers("bert_classifier {}"), 109'483'778);
  EXPECT_EQ(NumNumbers("bert_classifier {num_hidden_layers: 24 hidden_size: 1024 num_attention_heads: 16}"),
            335'143'938);
}

TEST(Bert, WithoutDropoutThereIsNone) {
  v1::ModelSpec spec = Spec(kTinyBert);
  const auto num_dropouts = [&spec] {
    const graph::Graph model = BuildModel(spec).value();
    return std::count_if(model.nodes().begin(), model.nodes().end(),
                         [](const graph::Node& node) { return node.op == "aten.dropout.default"; });
  };
  EXPECT_EQ(num_dropouts(), 4);  // After the embeddings, in both branches of the block, and before the classifier.
  spec.mutable_bert_classifier()->set_dropout(0);
  EXPECT_EQ(num_dropouts(), 0);
}

TEST(Bert, EveryWrongFieldIsNamedWithItsLimit) {
  EXPECT_THAT(ViolationsOf("bert_classifier {num_hidden_layers: -1 hidden_size: 10 num_attention_heads: 3 "
                           "intermediate_size: -1 max_position_embeddings: -5 vocab_size: 1 type_vocab_size: 257 "
                           "num_labels: 1 dropout: 1}"),
              ElementsAre("model.bert_classifier.num_hidden_layers: -1 is not within 1 to 256",
                          "model.bert_classifier.num_attention_heads: 3 does not divide hidden_size, 10",
                          "model.bert_classifier.intermediate_size: -1 is not within 1 to 1048576",
                          "model.bert_classifier.max_position_embeddings: -5 is not within 1 to 1048576",
                          "model.bert_classifier.vocab_size: 1 is not within 2 to 1048576",
                          "model.bert_classifier.type_vocab_size: 257 is not within 1 to 256",
                          "model.bert_classifier.num_labels: 1 is not within 2 to 65536",
                          "model.bert_classifier.dropout: 1 is not at least 0 and below 1"));
  EXPECT_THAT(ViolationsOf("bert_classifier {hidden_size: -8}"),
              ElementsAre("model.bert_classifier.hidden_size: -8 is not within 1 to 65536",
                          "model.bert_classifier.num_attention_heads: 12 does not divide hidden_size, -8"));
}

TEST(Bert, ALengthBeyondItsPositionsIsNamedAsTheData) {
  for (const int64_t length : {-1, 7}) {
    const auto violations = ampd::ViolationsOf(BuildModel(Spec(kTinyBert), length).status());
    ASSERT_EQ(violations.size(), 1) << length;
    EXPECT_EQ(violations[0].field, "data.train.jsonl.sequence_length");
    EXPECT_EQ(violations[0].description,
              absl::StrCat("is ", length, "; must be 1 to model.bert_classifier.max_position_embeddings, 6"));
  }
}

constexpr char kTinyRnn[] =
    "rnn {vocab_size: 5 embedding_size: 3 hidden_size: 4 num_layers: 2 bidirectional: true dropout: 0.5}";

TEST(Rnn, GraphOfTwoLayersInBothDirectionsIsGolden) {
  ExpectGolden("tests/models/golden/rnn.txt", graph::ToText(BuildModel(Spec(kTinyRnn), 6).value()));
}

TEST(Rnn, GraphOfAGruIsGolden) {
  ExpectGolden(
      "tests/models/golden/rnn_gru.txt",
      graph::ToText(BuildModel(Spec("rnn {cell: GRU vocab_size: 5 embedding_size: 3 hidden_size: 4}"), 6).value()));
}

TEST(Rnn, HasTorchsNumberOfParameters) {
  EXPECT_EQ(NumNumbers("rnn {vocab_size: 1000}"), 523'778);
  EXPECT_EQ(NumNumbers("rnn {vocab_size: 1000 cell: GRU bidirectional: true num_layers: 2}"), 1'904'642);
}

TEST(Rnn, EveryWrongFieldIsNamedWithItsLimit) {
  EXPECT_THAT(
      ViolationsOf("rnn {cell: 7 embedding_size: -1 hidden_size: 70000 num_layers: 65 num_classes: 1 "
                   "dropout: 1}"),
      ElementsAre("model.rnn.cell: 7 is not LSTM or GRU", "model.rnn.vocab_size: 0 is not within 2 to 1048576",
                  "model.rnn.embedding_size: -1 is not within 1 to 65536",
                  "model.rnn.hidden_size: 70000 is not within 1 to 65536",
                  "model.rnn.num_layers: 65 is not within 1 to 64", "model.rnn.num_classes: 1 is not within 2 to 65536",
                  "model.rnn.dropout: 1 is not at least 0 and below 1"));
}

TEST(Resnet, EveryWrongFieldOfASpecIsNamed) {
  EXPECT_THAT(ViolationsOf("resnet {depth: 101}"), ElementsAre("model.resnet.depth: 101 is not 18, 34 or 50"));
  EXPECT_THAT(ViolationsOf("resnet {in_channels: -1 num_classes: 1}"),
              ElementsAre("model.resnet.in_channels: -1 is not within 1 to 4096",
                          "model.resnet.num_classes: 1 is not within 2 to 65536"));
}

TEST(Lenet, TheSmallestImageOfEachDepthWorks) {
  EXPECT_THAT(ViolationsOf("lenet {widths: [1, 1, 1] image_size: 8}"), IsEmpty());
  EXPECT_THAT(ViolationsOf("lenet {widths: [1, 1, 1] image_size: 7}"),
              ElementsAre("model.lenet.image_size: 7 pixels cannot be halved by 3 poolings; it must be at least 8, or "
                          "give fewer widths"));
}

TEST(Lenet, EveryWrongFieldIsNamedWithItsLimit) {
  EXPECT_THAT(ViolationsOf("lenet {num_classes: 1 widths: [8, -3] hidden: -1 in_channels: 5000 image_size: 100000}"),
              ElementsAre("model.lenet.num_classes: 1 is not within 2 to 65536",
                          "model.lenet.hidden: -1 is not within 1 to 1048576",
                          "model.lenet.in_channels: 5000 is not within 1 to 4096",
                          "model.lenet.image_size: 100000 is not within 2 to 4096",
                          "model.lenet.widths[1]: -3 is not within 1 to 4096"));
}

TEST(Lenet, AtMostSixConvolutionsAreTaken) {
  EXPECT_THAT(ViolationsOf("lenet {image_size: 128 widths: [1, 1, 1, 1, 1, 1]}"), IsEmpty());
  EXPECT_THAT(ViolationsOf("lenet {image_size: 128 widths: [1, 1, 1, 1, 1, 1, 1]}"),
              ElementsAre("model.lenet.widths: 7 entries is not within 1 to 6"));
}

TEST(Mlp, EveryWrongFieldIsNamedWithItsLimit) {
  EXPECT_THAT(ViolationsOf("mlp {in_features: -1 hidden: [3, 0] num_classes: 70000}"),
              ElementsAre("model.mlp.in_features: -1 is not within 1 to 1048576",
                          "model.mlp.num_classes: 70000 is not within 2 to 65536",
                          "model.mlp.hidden[1]: 0 is not within 1 to 1048576"));
}

TEST(BuildModel, AnUnsetOrExportedModelIsRefused) {
  EXPECT_THAT(ViolationsOf(""), ElementsAre("model: is not set; give lenet, mlp, resnet, efficientnet_b0, gpt2, "
                                            "bert_classifier, rnn, dcgan or exported"));
  const auto exported = BuildModel(Spec("exported {artifact: 'm'}"));
  EXPECT_EQ(exported.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(exported.status()), "UNSUPPORTED_FIELD");
}

}  // namespace
}  // namespace ampd::models
