#include "graph/fused_batch_norms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder/builder.h"
#include "graph/cost/memory.h"
#include "graph/cost/op_memory.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "graph/segments.h"
#include "tests/golden_file.h"

namespace ampd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kChannels = 4;

TensorType ImagesOf(Dtype dtype) { return {dtype, {Dim::Batch(), kChannels, 8, 8}}; }

ValueId Conv(GraphBuilder& b, const std::string& path, ValueId x) {
  return b.Conv2d(path, x, {.out_channels = kChannels, .kernel_size = 1, .bias = false});
}

// A residual block with a norm on both branches, followed by a norm alone.
Graph Block() {
  GraphBuilder b("block");
  const ValueId images = b.Input("images", ImagesOf(Dtype::kFloat32));
  ValueId x = b.Relu("relu1", b.BatchNorm2d("bn1", Conv(b, "conv1", images)));
  x = b.BatchNorm2d("bn2", Conv(b, "conv2", x));
  const ValueId identity = b.BatchNorm2d("bn3", Conv(b, "conv3", images));
  x = b.Relu("relu2", b.Add("", x, identity));
  x = b.Add("", x, b.BatchNorm2d("bn4", Conv(b, "conv4", x)));
  b.Output("features", b.BatchNorm2d("bn5", Conv(b, "conv5", x)));
  return std::move(b).Build().value();
}

std::vector<std::string> OpNames(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) {
    ops.push_back(node.op.substr(node.op.find('.') + 1));
  }
  return ops;
}

// Returns the ops of a fused graph. Before the fusion, the graph has one norm and the nodes that `add` adds behind it.
template <typename Add>
std::vector<std::string> OpsBehindNorm(const Add& add, Dtype dtype = Dtype::kFloat32) {
  GraphBuilder b("one");
  const ValueId x = b.Input("x", ImagesOf(dtype));
  b.Output("y", add(b, x, b.BatchNorm2d("bn", x)));
  return OpNames(WithFusedBatchNorms(std::move(b).Build().value()));
}

TEST(WithFusedBatchNorms, OfAResidualBlockIsGolden) {
  const Graph fused = WithFusedBatchNorms(Block());
  ASSERT_TRUE(fused.Check().ok()) << fused.Check();
  ExpectGolden("tests/graph/golden/fused_batch_norms.txt", ToText(fused));
}

TEST(WithFusedBatchNorms, LeavesEvaluationAndWhatIsFusedAlone) {
  const Graph evaluation = EvalProgram(Block());
  EXPECT_EQ(ToText(WithFusedBatchNorms(evaluation)), ToText(evaluation));
  const Graph fused = WithFusedBatchNorms(Block());
  EXPECT_EQ(ToText(WithFusedBatchNorms(fused)), ToText(fused));
}

TEST(WithFusedBatchNorms, AValueWithTwoReadersStays) {
  EXPECT_THAT(OpsBehindNorm([](GraphBuilder& b, ValueId, ValueId y) { return b.Mul("", y, b.Relu("", y)); }),
              ElementsAre("batch_norm_add_relu", "relu.default", "mul.Tensor"));
  EXPECT_THAT(OpsBehindNorm([](GraphBuilder& b, ValueId, ValueId y) { return b.Add("", y, y); }),
              ElementsAre("batch_norm_add_relu", "add.Tensor"));
  EXPECT_THAT(OpsBehindNorm([](GraphBuilder& b, ValueId, ValueId y) {
                b.Output("too", y);
                return b.Relu("", y);
              }),
              ElementsAre("batch_norm_add_relu", "relu.default"));
}

// The number of results of the fused node in a graph. Before the fusion, the graph has a norm, an addition, a ReLU, and
// the nodes that `add` adds behind them.
template <typename Add>
size_t NumResultsWith(const Add& add, const std::vector<std::string>& segments = {}) {
  GraphBuilder b("one");
  const ValueId x = b.Input("x", ImagesOf(Dtype::kFloat32));
  b.Output("y", add(b, b.Relu("relu", b.Add("", b.BatchNorm2d("relu.bn", x), x))));
  const Graph fused = WithFusedBatchNorms(*WithCheckpointSegments(std::move(b).Build().value(), segments));
  EXPECT_TRUE(fused.Check().ok()) << fused.Check();
  EXPECT_EQ(fused.nodes()[0].op, kFusedBatchNorm);
  EXPECT_TRUE(*fused.nodes()[0].Find("num_results") == Operand(static_cast<int64_t>(fused.nodes()[0].outputs.size())));
  return fused.nodes()[0].outputs.size();
}

TEST(WithFusedBatchNorms, TwoReadersOfAResultGetOneEach) {
  EXPECT_EQ(NumResultsWith([](GraphBuilder& b, ValueId y) { return b.Add("", Conv(b, "conv", y), y); }), 2u);
  EXPECT_EQ(NumResultsWith([](GraphBuilder& b, ValueId y) { return b.Add("", b.BatchNorm2d("bn", y), y); }), 1u)
      << "both become one node";
  EXPECT_EQ(NumResultsWith([](GraphBuilder& b, ValueId y) { return Conv(b, "conv", y); }), 1u);
  EXPECT_EQ(NumResultsWith([](GraphBuilder& b, ValueId y) { return b.Mul("", y, y); }), 1u);
  EXPECT_EQ(NumResultsWith([](GraphBuilder& b, ValueId y) {
              const ValueId z = b.Add("", Conv(b, "conv1", y), y);
              return b.Add("", z, Conv(b, "conv2", y));
            }),
            1u)
      << "three readers";
  EXPECT_EQ(NumResultsWith([](GraphBuilder& b, ValueId y) {
              b.Output("too", y);
              return Conv(b, "conv", y);
            }),
            1u)
      << "an output";
}

TEST(WithFusedBatchNorms, ReadersInAnotherCheckpointSegmentShareTheResult) {
  const auto add = [](GraphBuilder& b, ValueId y) {
    return b.Mul("", Conv(b, "next.conv1", y), Conv(b, "next.conv2", y));
  };
  EXPECT_EQ(NumResultsWith(add), 2u);
  EXPECT_EQ(NumResultsWith(add, {"next"}), 1u);
  EXPECT_EQ(NumResultsWith(add, {"next.conv2"}), 1u);
  EXPECT_EQ(NumResultsWith(add, {"relu"}), 1u);
}

TEST(WithFusedBatchNorms, ANormWithoutAnAdditionHasOneResult) {
  GraphBuilder b("one");
  const ValueId y = b.Relu("relu", b.BatchNorm2d("bn", b.Input("x", ImagesOf(Dtype::kFloat32))));
  b.Output("y", b.Add("", Conv(b, "conv", y), y));
  EXPECT_EQ(WithFusedBatchNorms(std::move(b).Build().value()).nodes()[0].outputs.size(), 1u);
}

TEST(WithFusedBatchNorms, AnAdditionOfAnotherTypeOrScaledStays) {
  const auto adds = [](Operand other, Operand alpha) {
    GraphBuilder b("one");
    const ValueId x = b.Input("x", ImagesOf(Dtype::kFloat32));
    const ValueId row = b.Input("row", {Dtype::kFloat32, {1, kChannels, 1, 1}});
    const ValueId norm = b.BatchNorm2d("bn", x);
    Graph graph = std::move(b).Build().value();
    other = other == Operand() ? Operand(row) : other == Operand(true) ? Operand(x) : other;
    Node node = {.op = "aten.add.Tensor", .arguments = {{"self", norm}, {"other", other}}, .outputs = {}};
    if (alpha != Operand()) {
      node.Set("alpha", alpha);
    }
    graph.AddOutput("y", graph.AddNode(std::move(node), "sum", ImagesOf(Dtype::kFloat32)));
    return OpNames(WithFusedBatchNorms(graph)).size();
  };
  constexpr size_t kFused = 1;
  EXPECT_EQ(adds(Operand(true), Operand()), kFused);
  EXPECT_EQ(adds(Operand(true), Operand(int64_t{1})), kFused);
  EXPECT_EQ(adds(Operand(true), Operand(2.0)), 2u);
  EXPECT_EQ(adds(Operand(), Operand()), 2u);
  EXPECT_EQ(adds(Operand(1.0), Operand()), 2u);
}

TEST(WithFusedBatchNorms, ANormWithNarrowOrSharedStatisticsStays) {
  GraphBuilder b("two");
  const ValueId x = b.Input("x", ImagesOf(Dtype::kFloat32));
  b.Output("y", b.BatchNorm2d("bn", b.BatchNorm2d("bn", x)));
  Graph shared = std::move(b).Build().value();
  EXPECT_THAT(OpNames(WithFusedBatchNorms(shared)), ElementsAre("batch_norm.default", "batch_norm.default"));
  GraphBuilder n("narrow");
  n.Output("y", n.BatchNorm2d("bn", n.Input("x", ImagesOf(Dtype::kBFloat16))));
  Graph narrow = std::move(n).Build().value();
  narrow.SetType(narrow.nodes()[0].outputs[0], ImagesOf(Dtype::kBFloat16));
  EXPECT_THAT(OpNames(WithFusedBatchNorms(narrow)), ElementsAre("batch_norm_add_relu"));
  for (const State& buffer : narrow.buffers()) {
    narrow.SetType(buffer.value, {Dtype::kBFloat16, {kChannels}});
  }
  EXPECT_THAT(OpNames(WithFusedBatchNorms(narrow)), ElementsAre("batch_norm.default"));
}

TEST(WithFusedBatchNorms, AnotherCheckpointSegmentIsNotEntered) {
  EXPECT_THAT(OpNames(WithFusedBatchNorms(*WithCheckpointSegments(Block(), {"relu1"}))),
              ElementsAre("conv2d.default", "batch_norm_add_relu", "relu.default", "conv2d.default", "conv2d.default",
                          "batch_norm_add_relu", "batch_norm_add_relu", "conv2d.default", "batch_norm_add_relu",
                          "conv2d.default", "batch_norm_add_relu"));
}

TEST(WithFusedBatchNorms, TheSecondRunOfASegmentWritesNoStatistics) {
  const Graph fused = WithFusedBatchNorms(Block());
  const Node second = ForSecondRun(fused.nodes()[1]);
  EXPECT_FALSE(second.ValueOf("running_mean").has_value());
  EXPECT_FALSE(second.ValueOf("running_var").has_value());
  EXPECT_TRUE(second.ValueOf("weight").has_value());
  EXPECT_EQ(second.arguments.size(), fused.nodes()[1].arguments.size());
}

constexpr int64_t kBatchSize = 16;
constexpr int64_t kMaskBytes = kBatchSize * 8 * 8;  // One byte per pixel of the block, which has four channels.

TEST(WithFusedBatchNorms, KeepsNoMoreForTheBackwardPassButAMask) {
  const auto kept = [](const Graph& graph) {
    return EstimateRun(graph, kBatchSize, {.trained = "*", .on_gpu = true}).after_forward.activations;
  };
  const Graph plain = WithoutDeadNodes(Block());
  EXPECT_LE(kept(WithFusedBatchNorms(plain)), kept(plain) + kMaskBytes);
}

TEST(OpMemory, AFusedNormSavesAMaskOnlyForReluBehindAnAddition) {
  const Graph fused = WithFusedBatchNorms(Block());
  const OpMemory memory(fused, kBatchSize, "*", /*on_gpu=*/true);
  std::vector<std::string> savers;
  for (const Node& node : fused.nodes()) {
    for (const OpMemory::Kept& kept : memory.Keeps(node)) {
      EXPECT_NE(kept.value, node.outputs[0]);
      if (kept.inner_bytes == kMaskBytes) {
        savers.push_back(node.module_path);
      }
    }
    for (const ValueId output : node.outputs) {
      const bool is_second = output != node.outputs[0];
      EXPECT_EQ(memory.ShownBy(node, output), is_second ? std::optional(node.outputs[0]) : std::nullopt);
      EXPECT_FALSE(is_second && node.module_path != "bn2");
    }
    if (node.op == kFusedBatchNorm) {
      const auto residual = node.ValueOf("residual");
      const bool passes = residual.has_value() && memory.PassesGradient(node, *residual);
      EXPECT_EQ(passes, node.module_path == "bn4") << node.module_path;
      EXPECT_GT(memory.ForwardWorkspace(node), 0);
      EXPECT_LT(memory.ForwardWorkspace(node), 1 << 20);
    }
  }
  EXPECT_THAT(savers, ElementsAre("bn2"));
  EXPECT_EQ(fused.nodes()[5].outputs.size(), 2u);
}

TEST(EstimateRun, AFusedNormOverNoChannelsTakesNoMemoryForItsMask) {
  const TensorType images = {Dtype::kFloat32, {Dim::Batch(), 0, 8, 8}};
  Graph graph("empty");
  const auto call = [&](const char* op, std::vector<Argument> arguments) {
    return graph.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = ""}, "v", images);
  };
  const ValueId weight = graph.AddParameter("weight", {Dtype::kFloat32, {0}}, Initializer::Constant(1));
  const ValueId x = graph.AddInput("x", images);
  const ValueId norm = call("aten.batch_norm.default", {{"input", x}, {"weight", weight}, {"training", true}});
  const ValueId relu = call("aten.relu.default", {{"self", call("aten.add.Tensor", {{"self", norm}, {"other", x}})}});
  const Node mean{.op = "aten.mean.default", .arguments = {{"self", relu}}, .outputs = {}, .module_path = ""};
  graph.AddOutput("loss", graph.AddNode(mean, "loss", {Dtype::kFloat32, {}}));
  const Graph fused = WithFusedBatchNorms(graph);
  EXPECT_THAT(OpNames(fused), ElementsAre("batch_norm_add_relu", "mean.default"));
  EXPECT_EQ(EstimateRun(fused, kBatchSize, {.on_gpu = true}).after_forward.activations, 4) << "the loss alone";
}

TEST(ComputedBy, AFusedNormIsABatchNorm) { EXPECT_EQ(ComputedBy(kFusedBatchNorm), "aten.batch_norm.default"); }

}  // namespace
}  // namespace ampd::graph
