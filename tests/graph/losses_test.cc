#include "graph/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder/builder.h"
#include "graph/cost/memory.h"
#include "graph/passes.h"

namespace ampd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kFeatures = 32;
constexpr int64_t kBatch = 1024;
constexpr auto kValue = static_cast<double>(kBatch * kFeatures * sizeof(float));

// Returns a graph of two networks: an author, and a critic that judges the author's result. critic_loss trains the
// critic; author_loss trains the author through the critic.
Graph Pair() {
  GraphBuilder b("pair");
  const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
  const auto layers = [&b](const std::string& network, ValueId value) {
    for (const char* layer : {".0", ".1", ".2", ".3"}) {
      value = b.Tanh(network, b.Linear(network + layer, value, kFeatures));
    }
    return b.Linear(network + ".4", value, 1);
  };
  const auto loss = [&b](ValueId scores) { return b.BinaryCrossEntropy("", scores, b.OnesLike("", scores)); };
  const ValueId made = b.Linear("author.5", layers("author", x), kFeatures);
  b.Output("critic_loss", loss(layers("critic", b.Detach("", made))));
  b.Output("author_loss", loss(layers("critic", made)));
  return std::move(b).Build().value();
}

Graph Classifier() {
  GraphBuilder b("classifier");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
  b.Output("logits", b.Linear("head", x, 3));
  return std::move(b).Build().value();
}

TEST(LossesOf, EachTrainsTheNetworkThatItIsCalledAfterInTheOrderOfTheOutputs) {
  const std::vector<Loss> losses = LossesOf(Pair());
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].network, "critic");
  EXPECT_EQ(losses[0].output, "critic_loss");
  EXPECT_EQ(losses[0].parameters, "critic.*");
  EXPECT_EQ(losses[1].network, "author");
  EXPECT_THAT(LossesOf(Classifier()), IsEmpty());
}

TEST(TrainedGraph, HasALossHeadWhereTheModelHasNoLossOfItsOwn) {
  EXPECT_TRUE(TrainedGraph(Classifier())->FindOutput("loss").has_value());
  const Graph trained = TrainedGraph(Pair()).value();
  EXPECT_TRUE(trained.FindOutput("critic_loss").has_value());
  EXPECT_FALSE(trained.FindInput("labels").has_value());
}

// A step of the critic keeps only the critic's values for the backward pass, because it trains no parameter of the
// author. A step of the author backpropagates through both networks.
TEST(EstimateRun, WhatIsNotTrainedIsNotKept) {
  const Graph critic = LossProgram(Pair(), "critic_loss").value();
  const Graph author = LossProgram(Pair(), "author_loss").value();
  const auto kept = [](const Graph& program, const char* trained) {
    return static_cast<double>(EstimateRun(program, kBatch, {.trained = trained}).after_forward.activations) / kValue;
  };
  EXPECT_NEAR(kept(critic, "critic.*"), 5, 0.5) << "what the author made, and four layers";
  EXPECT_NEAR(kept(author, "author.*"), 9, 0.5) << "four layers each, and what lies between them";
  const RunMemory run = EstimateRun(author, kBatch, {.trained = "author.*"});
  EXPECT_EQ(
      run.after_backward.gradients,
      static_cast<int64_t>(sizeof(float)) * (4 * (kFeatures * kFeatures + kFeatures) + kFeatures + 1 + 2 * kFeatures));
}

}  // namespace
}  // namespace ampd::graph
