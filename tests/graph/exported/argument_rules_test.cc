#include "graph/exported/argument_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/batch_rules.h"
#include "graph/exported/constant_ranges.h"
#include "graph/vocabulary.h"

namespace ampd::graph {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using Ints = std::vector<int64_t>;

struct TensorArgument {
  std::string name;
  Shape shape;
};

// Returns the fault that FaultOfArguments finds in a call of the op with these tensors and numbers; empty if it finds
// none.
std::string FaultOfCall(const std::string& op, const std::vector<TensorArgument>& tensors,
                        const std::vector<Argument>& numbers) {
  Graph graph("call");
  Node node{.op = op, .arguments = {}, .outputs = {}, .module_path = "m"};
  for (const auto& [name, shape] : tensors) {
    node.Set(name, graph.AddInput(name, {Dtype::kFloat32, shape}));
  }
  for (const Argument& number : numbers) {
    node.Set(number.name, number.operand);
  }
  graph.AddNode(std::move(node), "result", {Dtype::kFloat32, {Dim::Batch(), 4, 4, 4}});
  return FaultOfArguments(graph, graph.nodes()[0]);
}

const Shape kImages = {Dim::Batch(), 4, 7, 7};

TEST(FaultOfArguments, WhatPyTorchTakesIsTaken) {
  const std::vector<TensorArgument> images = {{"self", kImages}};
  EXPECT_THAT(FaultOfCall("aten.dropout.default", {{"input", kImages}}, {{"p", 1.0}, {"train", true}}), IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.dropout.default", {{"input", kImages}}, {{"p", int64_t{0}}}), IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.max_pool2d.default", images,
                          {{"kernel_size", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}}),
              IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.avg_pool2d.default", images, {{"kernel_size", Ints{7}}}), IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.max_pool2d.default", images, {{"kernel_size", Ints{3}}, {"dilation", Ints{3}}}),
              IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.conv2d.default", {{"input", kImages}, {"weight", {8, 2, 9, 9}}},
                          {{"groups", int64_t{2}}, {"padding", Ints{1, 1}}}),
              IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.conv_transpose2d.input", {{"input", kImages}, {"weight", {4, 2, 9, 9}}}, {}),
              IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.group_norm.default", {{"input", kImages}}, {{"num_groups", int64_t{2}}}), IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.layer_norm.default", {{"input", kImages}}, {{"normalized_shape", Ints{7, 7}}}),
              IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.embedding.default", {{"weight", {10, 4}}}, {{"padding_idx", int64_t{-1}}}), IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.pad.default", images, {{"pad", Ints{6, 6}}, {"mode", std::string("reflect")}}),
              IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.pad.default", images, {{"pad", Ints{-3, -3}}}), IsEmpty());
  EXPECT_THAT(FaultOfCall("aten.cross_entropy_loss.default",
                          {{"self", {Dim::Batch(), 5}}, {"target", {Dim::Batch()}}, {"weight", {5}}},
                          {{"label_smoothing", 0.1}, {"reduction", int64_t{1}}}),
              IsEmpty());
}

TEST(FaultOfArguments, WhatPyTorchRefusesIsRefusedWithTheNumber) {
  const std::vector<TensorArgument> images = {{"self", kImages}};
  const std::vector<TensorArgument> input = {{"input", kImages}};
  const std::vector<TensorArgument> scores = {{"self", {Dim::Batch(), 5}}, {"target", {Dim::Batch()}}};
  const struct {
    const char* op;
    std::vector<TensorArgument> tensors;
    std::vector<Argument> numbers;
    const char* fault;
  } cases[] = {
      {"aten.dropout.default", input, {{"p", 1.5}, {"train", true}}, "its p is 1.5; it takes 0 to 1"},
      {"aten.dropout_.default", images, {{"p", -0.1}}, "its p is -0.1"},
      {"aten.feature_dropout.default", input, {{"p", int64_t{2}}}, "its p is 2"},
      {"aten.bernoulli.p", images, {{"p", 1.01}}, "its p is 1.01"},
      {"aten.scaled_dot_product_attention.default",
       {{"query", kImages}, {"key", kImages}, {"value", kImages}},
       {{"dropout_p", 7.0}},
       "its dropout_p is 7"},
      {"aten.scaled_dot_product_attention.default",
       {{"query", kImages}, {"key", kImages}, {"value", kImages}, {"attn_mask", kImages}},
       {{"is_causal", true}},
       "it has a mask and is_causal"},
      {"aten.max_pool2d.default",
       images,
       {{"kernel_size", Ints{2}}, {"padding", Ints{2}}},
       "at most half of its window"},
      {"aten.avg_pool2d.default", images, {{"kernel_size", Ints{2, 2}}, {"padding", Ints{0, 2}}}, "its padding is 2"},
      {"aten.avg_pool2d.default", images, {{"kernel_size", Ints{8}}}, "its window of 8 is larger than its input, 7"},
      {"aten.max_pool2d.default", images, {{"kernel_size", Ints{2}}, {"stride", Ints{0, 1}}}, "its stride is 0"},
      {"aten.max_pool2d.default", images, {{"kernel_size", Ints{0}}}, "its kernel size is 0"},
      {"aten.avg_pool2d.default",
       images,
       {{"kernel_size", Ints{2}}, {"divisor_override", int64_t{0}}},
       "its divisor_override is 0"},
      {"aten.conv2d.default",
       {{"input", kImages}, {"weight", {8, 4, 3, 3}}},
       {{"padding", Ints{-1, 0}}},
       "padding is -1"},
      {"aten.conv2d.default", {{"input", kImages}, {"weight", {8, 4, 9, 9}}}, {}, "its window of 9 is larger"},
      {"aten.conv2d.default", {{"input", kImages}, {"weight", {8, 4, 3, 3}}}, {{"dilation", Ints{0}}}, "dilation is 0"},
      {"aten.conv2d.default",
       {{"input", kImages}, {"weight", {8, 4, 3, 3}}},
       {{"groups", int64_t{3}}},
       "its groups is 3, which does not divide its 4 channels"},
      {"aten.group_norm.default", input, {{"num_groups", int64_t{3}}}, "its num_groups is 3, which does not divide"},
      {"aten.group_norm.default", input, {{"num_groups", int64_t{0}}}, "its num_groups is 0"},
      {"aten.batch_norm.default", input, {{"training", true}, {"eps", 0.0}}, "its eps is 0"},
      {"aten.layer_norm.default", input, {{"normalized_shape", Ints{6}}}, "its normalized_shape, (6)"},
      {"aten.embedding.default", {{"weight", {10, 4}}}, {{"padding_idx", int64_t{10}}}, "its table has 10 rows"},
      {"aten.hardtanh.default", images, {{"min_val", 2.0}, {"max_val", 1.0}}, "its min_val is 2, above its max_val"},
      {"aten.huber_loss.default", scores, {{"delta", 0.0}}, "its delta is 0"},
      {"aten.smooth_l1_loss.default", scores, {{"beta", -1.0}}, "its beta is -1"},
      {"aten.mse_loss.default", scores, {{"reduction", int64_t{3}}}, "its reduction is 3"},
      {"aten.cross_entropy_loss.default", scores, {{"label_smoothing", 1.5}}, "its label_smoothing is 1.5"},
      {"aten.cross_entropy_loss.default",
       {{"self", {Dim::Batch(), 5}}, {"target", {Dim::Batch()}}, {"weight", {4}}},
       {},
       "one number for each of its 5 classes"},
      {"aten.binary_cross_entropy_with_logits.default", scores, {}, "its target is of another shape"},
      {"aten.pad.default", images, {{"pad", Ints{7, 0}}, {"mode", std::string("reflect")}}, "by reflect is too much"},
      {"aten.pad.default", images, {{"pad", Ints{8, 0}}, {"mode", std::string("circular")}}, "by circular is too much"},
      {"aten.pad.default", images, {{"pad", Ints{-4, -3}}}, "leaves nothing of a size of 7"},
      {"aten.pad.default", images, {{"pad", Ints{1}}}, "its pad has 1 numbers"},
  };
  for (const auto& row : cases) {
    EXPECT_THAT(FaultOfCall(row.op, row.tensors, row.numbers), HasSubstr(row.fault)) << row.op;
  }
}

// Returns a graph of a norm in training mode over (B, 4, size, size), or over (B, 4) if `size` is 0.
Graph NormOver(const std::string& op, int64_t size, int64_t num_groups = 0) {
  Graph graph("norm");
  const Shape shape = size == 0 ? Shape{Dim::Batch(), 4} : Shape{Dim::Batch(), 4, size, size};
  const ValueId x = graph.AddInput("x", {Dtype::kFloat32, shape});
  Node node{.op = op, .arguments = {{"input", x}}, .outputs = {}, .module_path = "body.norm"};
  num_groups > 0 ? node.Set("num_groups", num_groups) : node.Set("training", true);
  graph.AddOutput("y", graph.AddNode(std::move(node), "y", {Dtype::kFloat32, shape}));
  return graph;
}

TEST(FaultOfBatch, ANormOfTheBatchTakesMoreThanOneValue) {
  EXPECT_THAT(
      FaultOfBatch(NormOver("aten.batch_norm.default", 1), 1),
      HasSubstr("aten.batch_norm.default of body.norm has 1 value a channel to normalise in a batch of 1 sample"));
  EXPECT_THAT(FaultOfBatch(NormOver("aten.batch_norm.default", 0), 1), HasSubstr("body.norm"));
  EXPECT_THAT(FaultOfBatch(NormOver("aten.batch_norm.default", 1), 2), IsEmpty());
  EXPECT_THAT(FaultOfBatch(NormOver("aten.batch_norm.default", 2), 1), IsEmpty());
  EXPECT_THAT(FaultOfBatch(NormOver("aten.group_norm.default", 1, 4), 1), HasSubstr("1 value a group"));
  EXPECT_THAT(FaultOfBatch(NormOver("aten.group_norm.default", 1, 2), 1), IsEmpty());
  EXPECT_THAT(FaultOfBatch(NormOver("aten.group_norm.default", 1, 4), 2), IsEmpty()) << "as PyTorch";
  Graph evaluated = NormOver("aten.batch_norm.default", 1);
  std::vector<Node> nodes = evaluated.nodes();
  nodes[0].Set("training", false);
  evaluated.SetNodes(nodes);
  EXPECT_THAT(FaultOfBatch(evaluated, 1), IsEmpty());
}

TEST(FaultOfBatch, ABatchOutsideTheRangeOfTheExportIsOne) {
  Graph graph = NormOver("aten.batch_norm.default", 2);
  graph.SetBatchRange({.least = 1, .most = 8});
  EXPECT_THAT(FaultOfBatch(graph, 8), IsEmpty());
  EXPECT_EQ(FaultOfBatch(graph, 64), "the model was exported for batches of at most 8 samples, and not for 64");
  graph.SetBatchRange({.least = 4, .most = 8});
  EXPECT_THAT(FaultOfBatchRange(graph, 3), HasSubstr("batches of 4 to 8 samples, and not for 3"));
  graph.SetBatchRange({.least = 4});
  EXPECT_THAT(FaultOfBatchRange(graph, 3), HasSubstr("batches of at least 4 samples"));
}

// Returns a graph of an embedding that looks up the positions arange(num_positions) + 2 in a table of `rows`. Casts the
// positions to `dtype` and back to int64.
Graph Positions(int64_t num_positions, int64_t rows, Dtype dtype = Dtype::kInt64) {
  Graph graph("positions");
  const ValueId table = graph.AddParameter("table", {Dtype::kFloat32, {rows, 8}}, Initializer::Constant(0));
  const TensorType places = {Dtype::kInt64, {num_positions}};
  const auto call = [&](std::string op, std::vector<Argument> arguments, TensorType type) {
    return graph.AddNode(
        {.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = "embed"}, "v", type);
  };
  ValueId at = call("aten.arange.default", {{"end", num_positions}}, places);
  at = call("aten.add.Tensor", {{"self", at}, {"other", int64_t{2}}}, places);
  for (const Dtype to : {dtype, Dtype::kInt64}) {
    at = call("aten.to.dtype", {{"self", at}, {"dtype", to}}, {to, {num_positions}});
  }
  at = call("aten.unsqueeze.default", {{"self", at}, {"dim", int64_t{0}}}, {Dtype::kInt64, {1, num_positions}});
  graph.AddOutput("y", call("aten.embedding.default", {{"weight", table}, {"indices", at}},
                            {Dtype::kFloat32, {1, num_positions, 8}}));
  return graph;
}

TEST(FaultOfConstantIndices, PositionsBeyondTheTableAreFound) {
  EXPECT_THAT(FaultOfConstantIndices(Positions(30, 32)), IsEmpty());
  EXPECT_THAT(FaultOfConstantIndices(Positions(31, 32)),
              HasSubstr("aten.embedding.default of embed chooses row 32 of a table of 32 rows"));
  EXPECT_THAT(FaultOfConstantIndices(Positions(31, 32, Dtype::kInt32)), HasSubstr("chooses row 32"));
}

TEST(FaultOfConstantIndices, NumbersThatACastChangesAreNotFollowed) {
  EXPECT_THAT(FaultOfConstantIndices(Positions(31, 32, Dtype::kBool)), IsEmpty());
  EXPECT_THAT(FaultOfConstantIndices(Positions(300, 256, Dtype::kUint8)), IsEmpty());
}

TEST(FaultOfConstantIndices, ANumberTooLargeForARangeIsNotFollowed) {
  EXPECT_THAT(FaultOfConstantIndices(Positions(std::numeric_limits<int64_t>::min(), 32)), IsEmpty());
}

TEST(NumbersOf, ATargetOfACrossEntropyIsAClassOrTheIgnoredOne) {
  Graph graph("own");
  const ValueId scores = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 7}});
  const ValueId labels = graph.AddInput("labels", {Dtype::kInt64, {Dim::Batch(), 1}});
  const ValueId flat = graph.AddNode({.op = "aten.view.default",
                                      .arguments = {{"self", labels}, {"size", Ints{-1}}},
                                      .outputs = {},
                                      .module_path = ""},
                                     "flat", {Dtype::kInt64, {Dim::Batch()}});
  const ValueId loss = graph.AddNode({.op = "aten.cross_entropy_loss.default",
                                      .arguments = {{"self", scores}, {"target", flat}, {"ignore_index", int64_t{-1}}},
                                      .outputs = {},
                                      .module_path = ""},
                                     "loss", {Dtype::kFloat32, {}});
  graph.AddOutput("loss", loss);
  const auto numbers = NumbersOf(graph, "labels");
  ASSERT_TRUE(numbers.has_value());
  EXPECT_EQ(numbers->num_numbers, 7);
  EXPECT_EQ(numbers->ignored, -1);
  EXPECT_EQ(IgnoredLabelOf(graph), -1);
  EXPECT_FALSE(NumbersOf(graph, "x").has_value());
}

TEST(IgnoredLabelOf, ACrossEntropyThatIsNoMeanHasNone) {
  constexpr int64_t kNone = 0;
  constexpr int64_t kMean = 1;
  constexpr int64_t kSum = 2;
  for (const int64_t reduction : {kNone, kMean, kSum}) {
    Graph graph("own");
    const ValueId scores = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 7}});
    const ValueId labels = graph.AddInput("labels", {Dtype::kInt64, {Dim::Batch()}});
    const ValueId loss = graph.AddNode({.op = "aten.cross_entropy_loss.default",
                                        .arguments = {{"self", scores}, {"target", labels}, {"reduction", reduction}},
                                        .outputs = {},
                                        .module_path = ""},
                                       "loss", {Dtype::kFloat32, {}});
    graph.AddOutput("loss", loss);
    EXPECT_EQ(IgnoredLabelOf(graph).has_value(), reduction == kMean) << reduction;
    EXPECT_EQ(NumbersOf(graph, "labels")->ignored, -100) << "labels may still have this value";
  }
}

}  // namespace
}  // namespace ampd::graph
