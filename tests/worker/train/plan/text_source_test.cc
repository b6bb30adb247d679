#include "worker/train/plan/text_source.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "tests/data/data_folder.h"

namespace ampd::train {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;
using ::testing::HasSubstr;

constexpr int64_t kLength = 4;
constexpr int64_t kVocabulary = 7;

class OpenTextSourceTest : public data::DataFolderTest {
 protected:
  absl::StatusOr<data::Dataset> Open(const std::string& lines, const graph::Graph& model) {
    Write("texts", lines);
    source_.mutable_jsonl()->set_path("texts");
    source_.mutable_jsonl()->set_sequence_length(kLength);
    return Open(model);
  }
  // Opens a file of tokens of 16 bits.
  absl::StatusOr<data::Dataset> OpenTokens(const std::vector<uint16_t>& tokens, const graph::Graph& model) {
    Write("tokens", {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(tokens[0])});
    source_.mutable_tokens()->set_path("tokens");
    source_.mutable_tokens()->set_format(v1::TokensSource::UINT16);
    source_.mutable_tokens()->set_sequence_length(kLength);
    return Open(model);
  }

 private:
  absl::StatusOr<data::Dataset> Open(const graph::Graph& model) {
    const auto labels = needs_labels_ ? LabelsTakenBy(model) : Labels();
    EXPECT_TRUE(labels.ok()) << labels.status();
    return OpenTextSource(source_, "data.train", model, labels.value_or(Labels()), needs_labels_,
                          [this](const std::string&, const std::string& path) { return At(path); });
  }

 protected:
  v1::DataSource source_;
  bool needs_labels_ = true;
};

// A classifier that reshapes its tokens before the embedding, as transformers' GPT-2 and T5 do.
graph::Graph Reshaping() {
  GraphBuilder builder("reshaping");
  const ValueId tokens = builder.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), kLength}});
  const ValueId table = builder.Parameter("table", {kVocabulary, 2}, graph::Initializer::Constant(0));
  const ValueId rows = builder.Embedding("table", builder.View("rows", tokens, {Dim::Batch(), kLength}), table);
  builder.Output("logits", builder.Linear("head", builder.Flatten("flat", rows), 3));
  return std::move(builder).Build().value();
}

// A classifier without an embedding table, so that the size of its vocabulary is unknown.
graph::Graph WithoutTable() {
  GraphBuilder builder("without table");
  builder.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), kLength}});
  const ValueId mask = builder.Input("attention_mask", {Dtype::kFloat32, {Dim::Batch(), kLength}});
  builder.Output("logits", builder.Linear("head", mask, 3));
  return std::move(builder).Build().value();
}

// A classifier with an embedding for token types that has this many rows.
graph::Graph WithTypes(int64_t num_rows) {
  GraphBuilder builder("with types");
  builder.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), kLength}});
  const ValueId types = builder.Input("token_type_ids", {Dtype::kInt64, {Dim::Batch(), kLength}});
  const ValueId table = builder.Parameter("table", {num_rows, 2}, graph::Initializer::Constant(0));
  const ValueId rows = builder.Embedding("table", types, table);
  builder.Output("logits", builder.Linear("head", builder.Flatten("flat", rows), 3));
  return std::move(builder).Build().value();
}

// A language model with a table of kVocabulary rows and `num_logits` logits for each position.
graph::Graph LanguageModel(int64_t num_logits) {
  GraphBuilder builder("language model");
  const ValueId tokens = builder.Input("input_ids", {Dtype::kInt64, {Dim::Batch(), kLength}});
  const ValueId table = builder.Parameter("table", {kVocabulary, 2}, graph::Initializer::Constant(0));
  builder.Output("logits", builder.Linear("head", builder.Embedding("table", tokens, table), num_logits));
  return std::move(builder).Build().value();
}

// A model with kNumClasses classes that computes its own loss: one of a label for each text, or for each position.
// `ignored`: the label that the loss leaves out.
constexpr int64_t kNumClasses = 3;
graph::Graph OwnLoss(bool is_for_positions, int64_t ignored) {
  graph::Graph graph("own");
  graph.AddInput("input_ids", {Dtype::kInt64, {Dim::Batch(), kLength}});
  const graph::Shape of_labels = is_for_positions ? graph::Shape{Dim::Batch(), kLength} : graph::Shape{Dim::Batch()};
  const graph::Shape of_scores =
      is_for_positions ? graph::Shape{Dim::Batch(), kNumClasses, kLength} : graph::Shape{Dim::Batch(), kNumClasses};
  const ValueId labels = graph.AddInput("labels", {Dtype::kInt64, of_labels});
  const ValueId scores = graph.AddInput("scores", {Dtype::kFloat32, of_scores});
  const ValueId loss = graph.AddNode({.op = "aten.cross_entropy_loss.default",
                                      .arguments = {{"self", scores}, {"target", labels}, {"ignore_index", ignored}},
                                      .outputs = {},
                                      .module_path = {}},
                                     "loss", {Dtype::kFloat32, {}});
  graph.AddOutput("loss", loss);
  return graph;
}

TEST_F(OpenTextSourceTest, AModelThatReshapesItsTokens_HasItsTablesVocabulary) {
  const auto sound = Open("{\"input_ids\": [0, 6], \"label\": 2}\n", Reshaping());
  ASSERT_TRUE(sound.ok()) << sound.status();
  EXPECT_EQ(sound->size(), 1);
  EXPECT_THAT(Open("{\"input_ids\": [0, 7], \"label\": 2}\n", Reshaping()).status().message(),
              HasSubstr("line 1: input_ids[1] is 7; the model has 7 tokens in its vocabulary"));
}

TEST_F(OpenTextSourceTest, TextsToPredict_NeedNoClassAndMayHaveAnyOne) {
  constexpr char kLines[] = "{\"input_ids\": [0, 6]}\n{\"input_ids\": [1], \"label\": 99}\n";
  EXPECT_THAT(Open(kLines, Reshaping()).status().message(), HasSubstr("line 1: label is missing"));
  needs_labels_ = false;
  const auto unlabelled = Open(kLines, Reshaping());
  ASSERT_TRUE(unlabelled.ok()) << unlabelled.status();
  EXPECT_EQ(unlabelled->size(), 2);
}

TEST_F(OpenTextSourceTest, APadTokenBeyondTheVocabulary_IsASpecErrorThatNamesTheField) {
  constexpr char kLines[] = "{\"input_ids\": [1], \"label\": 0}\n";
  source_.mutable_jsonl()->set_pad_token(kVocabulary);
  const absl::Status status = Open(kLines, Reshaping()).status();
  EXPECT_EQ(ReasonOf(status), "SPEC_ERROR") << status;
  EXPECT_EQ(status.message(), "data.train.jsonl.pad_token is 7; the model has 7 tokens in its vocabulary");
  EXPECT_TRUE(Open(kLines, WithoutTable()).ok());
  source_.mutable_jsonl()->set_pad_token(kVocabulary - 1);
  EXPECT_TRUE(Open(kLines, Reshaping()).ok());
}

TEST_F(OpenTextSourceTest, AModelOfAnUnknownVocabulary_TakesAnyToken) {
  const auto texts = Open("{\"input_ids\": [101, 4294967295], \"label\": 2}\n", WithoutTable());
  EXPECT_TRUE(texts.ok()) << texts.status();
}

TEST_F(OpenTextSourceTest, LabelsOfAnOwnLoss_AreClassesOfItsCrossEntropy) {
  const auto why = [this](int64_t label, int64_t ignored) {
    const auto texts = Open(absl::StrCat("{\"input_ids\": [1], \"label\": ", label, "}\n"),
                            OwnLoss(/*is_for_positions=*/false, ignored));
    return texts.ok() ? "" : std::string(texts.status().message());
  };
  EXPECT_EQ(why(2, -100), "");
  EXPECT_EQ(why(3, -100), "texts: line 1: label is 3; the model has 3 classes");
  EXPECT_EQ(why(255, 255), "") << "the loss leaves it out";
  needs_labels_ = false;
  EXPECT_EQ(why(3, -100), "") << "a prediction reads no labels";
}

TEST_F(OpenTextSourceTest, TokensOfALanguageModel_AreRowsOfItsTableAndHaveALogit) {
  const auto why = [this](uint16_t token, const graph::Graph& model) {
    const auto text = OpenTokens({0, 1, 2, 0, token}, model);
    return text.ok() ? "" : std::string(text.status().message());
  };
  EXPECT_EQ(why(6, LanguageModel(kVocabulary)), "");
  EXPECT_EQ(why(6, LanguageModel(64)), "");
  EXPECT_EQ(why(7, LanguageModel(64)), "tokens: token 4 is 7; the model's vocabulary has 7") << "more logits than rows";
  EXPECT_EQ(why(5, LanguageModel(5)), "tokens: token 4 is 5; the model's vocabulary has 5") << "fewer logits than rows";
}

TEST_F(OpenTextSourceTest, TokensOfAnOwnLoss_AreClassesOfItsCrossEntropyOrLeftOut) {
  const auto why = [this](uint16_t token, int64_t ignored) {
    const auto text = OpenTokens({0, 1, 2, 0, token}, OwnLoss(/*is_for_positions=*/true, ignored));
    return text.ok() ? "" : std::string(text.status().message());
  };
  EXPECT_EQ(why(2, -100), "");
  EXPECT_EQ(why(3, -100), "tokens: token 4 is 3; the model's vocabulary has 3");
  EXPECT_EQ(why(3, 3), "");
}

TEST_F(OpenTextSourceTest, TypesOfTokens_AreRowsOfTheModelsTableAndFitIntoAByte) {
  const auto why = [this](int type, int64_t num_rows) {
    const std::string types = absl::StrCat("\"token_type_ids\": [", type, "]");
    const auto texts = Open(absl::StrCat("{\"input_ids\": [1], ", types, ", \"label\": 0}\n"), WithTypes(num_rows));
    return texts.ok() ? "" : std::string(texts.status().message());
  };
  EXPECT_EQ(why(1, 2), "");
  EXPECT_THAT(why(2, 2), HasSubstr("line 1: token_type_ids[0] is 2; the model has 2 types of tokens"));
  EXPECT_EQ(why(255, 512), "");
  EXPECT_THAT(why(299, 512), HasSubstr("line 1: token_type_ids[0] is 299; a job takes at most 255"));
}

}  // namespace
}  // namespace ampd::train
