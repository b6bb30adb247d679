#include "worker/train/plan/uneven_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/ones.h"
#include "ATen/ops/zeros.h"
#include "graph/graph.h"
#include "graph/passes.h"

namespace ampd::train {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::ValueId;
using ::testing::HasSubstr;

// A model that computes its own loss: a cross entropy whose logits are the model's input. `more`: further arguments of
// the cross entropy.
Graph OwnLoss(std::vector<graph::Argument> more = {}) {
  Graph graph("own");
  const ValueId logits = graph.AddInput("images", {Dtype::kFloat32, {Dim::Batch(), 4}});
  const ValueId labels = graph.AddInput("labels", {Dtype::kInt64, {Dim::Batch()}});
  std::vector<graph::Argument> arguments = {{"self", logits}, {"target", labels}};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ValueId loss =
      graph.AddNode({.op = "aten.cross_entropy_loss.default", .arguments = arguments, .outputs = {}, .module_path = {}},
                    "loss", {Dtype::kFloat32, {}});
  graph.AddOutput("loss", loss);
  return graph;
}

amp::Batch BatchOf(int64_t one_label, int64_t positions_set = 6) {
  amp::Batch batch{at::zeros({3, 4}), at::ones({3, 2}, at::kLong)};
  batch.labels[1][1] = one_label;
  batch.others["attention_mask"] = at::zeros({3, 2}, at::kBool);
  batch.others["attention_mask"].view(-1).slice(0, 0, positions_set).fill_(true);
  return batch;
}

TEST(UnevenBatches, LabelsThatTheModelLeavesOutAreNamed) {
  const UnevenBatches plain(OwnLoss());
  EXPECT_EQ(plain.WhyUneven({BatchOf(1), BatchOf(3)}), "");
  EXPECT_EQ(plain.WhyUneven({BatchOf(1)}), "");
  EXPECT_THAT(plain.WhyUneven({BatchOf(1), BatchOf(-100)}), HasSubstr("labels of -100"));
  EXPECT_EQ(plain.WhyUneven({BatchOf(-100)}), "") << "one batch weighs all there is";
  const UnevenBatches of_three(OwnLoss({{"ignore_index", int64_t{3}}}));
  EXPECT_THAT(of_three.WhyUneven({BatchOf(3), BatchOf(1)}), HasSubstr("labels of 3"));
  Graph by_hand = OwnLoss();
  by_hand.AddNode({.op = "aten.ne.Scalar",
                   .arguments = {{"self", *by_hand.FindInput("labels")}, {"other", int64_t{0}}},
                   .outputs = {},
                   .module_path = {}},
                  "mask", {Dtype::kBool, {Dim::Batch()}});
  EXPECT_THAT(UnevenBatches(by_hand).WhyUneven({BatchOf(1), BatchOf(0)}), HasSubstr("labels of 0"));
}

TEST(UnevenBatches, WeightsOfClassesAndMasksOfPositionsAreToo) {
  Graph weighted = OwnLoss();
  std::vector<graph::Node> nodes = weighted.nodes();
  nodes[0].Set("weight", weighted.AddBuffer("weights", {Dtype::kFloat32, {4}}, graph::Initializer::Constant(1)));
  weighted.SetNodes(std::move(nodes));
  EXPECT_THAT(UnevenBatches(weighted).WhyUneven({BatchOf(1), BatchOf(1)}), HasSubstr("weighs labels by their class"));
  const UnevenBatches plain(OwnLoss());
  EXPECT_THAT(plain.WhyUneven({BatchOf(1), BatchOf(1, 4)}),
              HasSubstr("attention_mask covers 6 of 6 positions in one and 4 of 6 in another"));
  amp::Batch one = BatchOf(1);
  amp::Batch other = BatchOf(1, 4);
  one.labels = other.labels = at::ones({3}, at::kLong);
  EXPECT_EQ(plain.WhyUneven({one, other}), "") << "a sample has a label, whatever its length";
}

TEST(UnevenBatches, WhereLabelsAreCountedNothingIsSaid) {
  Graph counted = OwnLoss();
  counted.AddOutput(graph::kLabelCount, *counted.FindOutput("loss"));
  EXPECT_EQ(UnevenBatches(counted).WhyUneven({BatchOf(1), BatchOf(-100)}), "");
  Graph head("head");
  head.AddOutput("logits", head.AddInput("images", {Dtype::kFloat32, {Dim::Batch(), 4}}));
  EXPECT_EQ(UnevenBatches(head).WhyUneven({BatchOf(1), BatchOf(-100)}), "");
}

}  // namespace
}  // namespace ampd::train
