#include "graph/heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "graph/print.h"

namespace ampd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Head kHeads[] = {Head::kClassification, Head::kLanguageModel, Head::kRegression,
                           Head::kMultiLabel,     Head::kOwnLoss,       Head::kGan};

TEST(HeadNamed, GivesEveryHeadBackAndNothingForOthers) {
  for (const Head head : kHeads) {
    EXPECT_EQ(HeadNamed(HeadName(head)), head) << HeadName(head);
  }
  EXPECT_EQ(HeadNamed("HEAD_UNSPECIFIED"), std::nullopt);
  EXPECT_EQ(HeadNamed(""), std::nullopt);
}

// Returns the names of the loss heads that accept a model output of this type.
std::vector<std::string> Takers(const TensorType& type) {
  std::vector<std::string> takers;
  for (const Head head : kHeads) {
    if (Takes(head, type)) {
      takers.emplace_back(HeadName(head));
    }
  }
  return takers;
}

TEST(Takes, GoesByRankAndDtype) {
  const Dim batch = Dim::Batch();
  EXPECT_THAT(Takers({Dtype::kFloat32, {}}), ElementsAre("OWN_LOSS", "GAN"));
  EXPECT_THAT(Takers({Dtype::kFloat32, {batch}}), ElementsAre("REGRESSION"));
  EXPECT_THAT(Takers({Dtype::kFloat32, {batch, 3}}), ElementsAre("CLASSIFICATION", "REGRESSION", "MULTI_LABEL"));
  EXPECT_THAT(Takers({Dtype::kFloat32, {batch, 3, 5}}), ElementsAre("LANGUAGE_MODEL", "REGRESSION"));
  for (const TensorType& type :
       {TensorType{Dtype::kBFloat16, {}}, TensorType{Dtype::kFloat32, {1}}, TensorType{Dtype::kFloat32, {3, 5}},
        TensorType{Dtype::kInt64, {batch, 3}}, TensorType{Dtype::kFloat32, {Dim::Batch(2), 3}},
        TensorType{Dtype::kFloat32, {batch, batch}}}) {
    EXPECT_THAT(Takers(type), ElementsAre()) << ToText(type);
  }
}

// A linear layer whose output is called `output`.
Graph Layer(const char* output) {
  GraphBuilder b("layer");
  b.Output(output, b.Linear("fc", b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 4}}), 3));
  return std::move(b).Build().value();
}

// Returns a graph of a layer that computes its own loss, the mean of its results.
Graph OwnLoss() {
  Graph graph = Layer("logits");
  const ValueId loss = graph.AddNode({.op = "aten.mean.default",
                                      .arguments = {{"self", graph.outputs().front().value}},
                                      .outputs = {},
                                      .module_path = {}},
                                     "mean", {Dtype::kFloat32, {}});
  graph.SetOutputs({{"loss", loss}});
  return graph;
}

std::string LastNode(const Graph& graph) {
  const std::string text = ToText(graph);
  const size_t begin = text.rfind("\n%");
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

std::vector<std::string> Outputs(const Graph& graph) {
  EXPECT_TRUE(graph.Check().ok()) << graph.Check();
  std::vector<std::string> texts;
  for (const Output& output : graph.outputs()) {
    texts.push_back(output.name + " " + ToText(graph.type(output.value)));
  }
  return texts;
}

TEST(HeadOf, AnOutputsIsToldByItsShapeAndDtype) {
  EXPECT_EQ(HeadOf({Dtype::kFloat32, {Dim::Batch(), 10}}), Head::kClassification);
  EXPECT_EQ(HeadOf({Dtype::kFloat32, {Dim::Batch(), 16, 50}}), Head::kLanguageModel);
  for (const TensorType& type :
       {TensorType{Dtype::kFloat32, {}}, TensorType{Dtype::kFloat32, {Dim::Batch()}},
        TensorType{Dtype::kBFloat16, {Dim::Batch(), 10}}, TensorType{Dtype::kFloat32, {4, 10}},
        TensorType{Dtype::kFloat32, {Dim::Batch(2), 10}}, TensorType{Dtype::kFloat32, {Dim::Batch(), Dim::Batch()}},
        TensorType{Dtype::kFloat32, {Dim::Batch(), 3, 8, 8}}}) {
    EXPECT_EQ(HeadOf(type), std::nullopt) << ToText(type);
  }
}

TEST(HeadOf, AModelsIsToldByTheNameOfItsOutput) {
  EXPECT_EQ(HeadOf(Layer("logits")), Head::kClassification);
  EXPECT_EQ(HeadOf(Layer("predictions")), Head::kRegression);
  EXPECT_EQ(HeadOf(Layer("label_logits")), Head::kMultiLabel);
  EXPECT_EQ(HeadOf(OwnLoss()), Head::kOwnLoss);
  EXPECT_EQ(HeadOf(Layer("features")), std::nullopt);
  EXPECT_EQ(HeadOf(Layer("loss")), std::nullopt) << "it is no scalar";
}

TEST(WithLossHead, PredictionsAreComparedWithAsManyNumbers) {
  const Graph program = WithLossHead(Layer("predictions")).value();
  EXPECT_EQ(ToText(program.type(*program.FindInput("labels"))), "float32[B, 3]");
  EXPECT_EQ(LastNode(program), "%loss: float32[] = aten.mse_loss.default(self=%linear, target=%labels)");
  EXPECT_THAT(Outputs(program), ElementsAre("loss float32[]"));
  EXPECT_THAT(Outputs(WithEvalHead(Layer("predictions")).value()), ElementsAre("loss_sum float32[]"));
}

TEST(WithLossHead, EveryLabelOfSeveralIsADecision) {
  const Graph program = WithLossHead(Layer("label_logits")).value();
  EXPECT_EQ(ToText(program.type(*program.FindInput("labels"))), "float32[B, 3]");
  EXPECT_THAT(LastNode(program),
              HasSubstr("aten.binary_cross_entropy_with_logits.default(self=%linear, target=%labels)"));
  const Graph evaluation = WithEvalHead(Layer("label_logits")).value();
  EXPECT_THAT(Outputs(evaluation), ElementsAre("loss_sum float32[]", "num_correct int64[]", "predicted bool[B, 3]"));
  EXPECT_THAT(ToText(evaluation), HasSubstr("aten.gt.Scalar(self=%linear, other=0)"));
}

TEST(WithPredictions, AreOfTheHead) {
  EXPECT_THAT(Outputs(WithPredictions(Layer("logits")).value()), ElementsAre("class int64[B]", "logits float32[B, 3]"));
  EXPECT_THAT(Outputs(WithPredictions(Layer("predictions")).value()), ElementsAre("predictions float32[B, 3]"));
  const Graph decisions = WithPredictions(Layer("label_logits")).value();
  EXPECT_THAT(Outputs(decisions), ElementsAre("labels bool[B, 3]", "logits float32[B, 3]"));
  EXPECT_FALSE(decisions.FindInput("labels").has_value());
  GraphBuilder b("text");
  b.Output("logits", b.Linear("head", b.Input("embedded", {Dtype::kFloat32, {Dim::Batch(), 5, 4}}), 7));
  const Graph text = WithPredictions(std::move(b).Build().value()).value();
  EXPECT_THAT(Outputs(text), ElementsAre("tokens int64[B, 5]"));
  EXPECT_THAT(ToText(text), HasSubstr("aten.argmax.default(self=%linear, dim=2)"));
}

TEST(WithPredictions, AModelThatComputesItsLossPredictsNothing) {
  EXPECT_EQ(WithPredictions(OwnLoss()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WithPredictions(Layer("features")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WithLossHead, AModelsOwnLossStaysAsItIs) {
  EXPECT_EQ(ToText(WithLossHead(OwnLoss()).value()), ToText(OwnLoss()));
  EXPECT_THAT(Outputs(WithEvalHead(OwnLoss()).value()), ElementsAre("loss float32[]"));
}

}  // namespace
}  // namespace ampd::graph
