#include "graph/determinism.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace ampd::graph {
namespace {

using Sizes = std::vector<int64_t>;

// Returns a graph with one node. The node has the argument `self` and, if `target` has a type, the argument `target`.
// Both are inputs of the graph, with the given types.
Graph OneNode(const std::string& op, std::vector<Argument> arguments, Shape shape,
              std::optional<TensorType> target = {}) {
  Graph graph("one");
  Node node{.op = op, .arguments = {}, .outputs = {}, .module_path = "head.pool"};
  node.arguments = {{"self", graph.AddInput("x", {Dtype::kFloat32, std::move(shape)})}};
  if (target.has_value()) {
    node.arguments.push_back({"target", graph.AddInput("y", *std::move(target))});
  }
  node.arguments.insert(node.arguments.end(), arguments.begin(), arguments.end());
  graph.AddOutput("out", graph.AddNode(std::move(node), "out", {Dtype::kFloat32, {}}));
  return graph;
}

Graph Pool(Sizes output, Shape input) {
  return OneNode("aten.adaptive_avg_pool2d.default", {{"output_size", std::move(output)}}, std::move(input));
}

std::optional<Sizes> WindowsOf(Sizes output, Shape input) {
  const Graph graph = Pool(std::move(output), std::move(input));
  return EqualWindows(graph, graph.nodes()[0]);
}

TEST(EqualWindows, AreThoseOfAPoolWhoseInputIsAMultipleOfItsOutput) {
  EXPECT_EQ(WindowsOf({7, 7}, {Dim::Batch(), 512, 7, 7}), (Sizes{1, 1}));
  EXPECT_EQ(WindowsOf({2, 3}, {Dim::Batch(), 4, 8, 9}), (Sizes{4, 3}));
  EXPECT_EQ(WindowsOf({1, 2}, {4, 8, 8}), (Sizes{8, 4})) << "without a batch";
  EXPECT_EQ(WindowsOf({6, 6}, {Dim::Batch(), 256, 13, 13}), std::nullopt);
  EXPECT_EQ(WindowsOf({4, 4}, {Dim::Batch(), 3, 2, 2}), std::nullopt) << "an output larger than the input";
  EXPECT_EQ(WindowsOf({1, 1}, {Dim::Batch(), 3, 8, 8}), std::nullopt) << "a mean";
  EXPECT_EQ(WindowsOf({2, 2}, {3, Dim::Batch(), Dim::Batch()}), std::nullopt) << "sizes that depend on the batch";
}

std::string Found(const Graph& graph) {
  const auto found = FindNondeterministicOp(graph);
  return found.has_value() ? found->module_path + ": " + found->what : "";
}

Graph Padding(const char* mode, Sizes pad) {
  return OneNode("aten.pad.default", {{"pad", std::move(pad)}, {"mode", std::string(mode)}}, {Dim::Batch(), 3, 8, 8});
}

TEST(FindNondeterministicOp, NamesTheOpsThatThrowInDeterministicModeOnAGpu) {
  EXPECT_EQ(Found(Pool({6, 6}, {Dim::Batch(), 256, 13, 13})),
            "head.pool: an adaptive pool with windows of different sizes");
  EXPECT_EQ(Found(Padding("replicate", {1, 1, 1, 1})), "head.pool: a padding that repeats the border");
  EXPECT_EQ(Found(Padding("reflect", {1, 1})), "head.pool: a padding that mirrors one or three dimensions");
  const Shape pixels = {Dim::Batch(), 5, 8, 8};
  for (const char* op : {"aten.cross_entropy_loss.default", "aten.nll_loss_nd.default"}) {
    EXPECT_EQ(Found(OneNode(op, {}, pixels, TensorType{Dtype::kInt64, {Dim::Batch(), 8, 8}})),
              "head.pool: a loss over the classes of pixels");
  }
}

TEST(FindNondeterministicOp, FindsNothingInTheirDeterministicForms) {
  EXPECT_EQ(Found(Pool({7, 7}, {Dim::Batch(), 512, 7, 7})), "");
  EXPECT_EQ(Found(Pool({1, 1}, {Dim::Batch(), 512, 7, 7})), "");
  EXPECT_EQ(Found(Padding("constant", {1, 1, 1, 1})), "");
  EXPECT_EQ(Found(Padding("reflect", {1, 1, 1, 1})), "");
  EXPECT_EQ(Found(OneNode("aten.pad.default", {{"pad", Sizes{1, 1}}}, {Dim::Batch(), 8})), "");
  const Shape classes = {Dim::Batch(), 5};
  EXPECT_EQ(Found(OneNode("aten.cross_entropy_loss.default", {}, classes, TensorType{Dtype::kInt64, {Dim::Batch()}})),
            "");
  const Shape pixels = {Dim::Batch(), 5, 8, 8};
  EXPECT_EQ(Found(OneNode("aten.cross_entropy_loss.default", {}, pixels, TensorType{Dtype::kFloat32, pixels})), "")
      << "a target of probabilities";
}

}  // namespace
}  // namespace ampd::graph
