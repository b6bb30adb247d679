#include "graph/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "graph/cost/memory.h"
#include "graph/passes.h"
#include "graph/print.h"
#include "tests/golden_file.h"

namespace ampd::graph {
namespace {

using ::testing::ElementsAre;

// Returns a graph of a stem, two blocks and a head. Each block is a linear layer and a GELU with a residual addition.
Graph Blocks() {
  GraphBuilder b("blocks");
  ValueId x = b.Linear("stem", b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 4}}), 4);
  for (const char* path : {"h.0", "h.1"}) {
    const std::string block = path;
    x = b.Add(block, x, b.Gelu(block + ".act", b.Linear(block + ".fc", x, 4)));
  }
  b.Output("logits", b.Linear("head", x, 3));
  return std::move(b).Build().value();
}

// Returns a line "x y -> z" per recomputed segment: the names of the values that the segment reads and returns.
std::vector<std::string> Ends(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Segment& segment : SegmentsOf(graph)) {
    if (segment.recomputed) {
      std::string line;
      for (ValueId input : segment.inputs) {
        absl::StrAppend(&line, graph.value(input).name, " ");
      }
      absl::StrAppend(&line, "->");
      for (ValueId output : segment.outputs) {
        absl::StrAppend(&line, " ", graph.value(output).name);
      }
      lines.push_back(line);
    }
  }
  return lines;
}

TEST(WithCheckpointSegments, EveryMatchingModuleIsASegment) {
  const auto graph = WithCheckpointSegments(Blocks(), {"h.*"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectGolden("tests/graph/golden/segments.txt", ToText(*graph));
  EXPECT_THAT(Ends(*graph),
              ElementsAre("linear h.0.fc.weight h.0.fc.bias -> add", "add h.1.fc.weight h.1.fc.bias -> add_1"));
}

TEST(WithCheckpointSegments, TheOutermostMatchCounts) {
  const auto graph = WithCheckpointSegments(Blocks(), {"h.0.fc", "h.?", "*.act"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Ends(*graph),
              ElementsAre("linear h.0.fc.weight h.0.fc.bias -> add", "add h.1.fc.weight h.1.fc.bias -> add_1"));
}

TEST(WithCheckpointSegments, NothingIsASegmentUnasked) {
  const auto graph = WithCheckpointSegments(Blocks(), {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(ToText(*graph), ToText(Blocks()));
  ASSERT_EQ(SegmentsOf(*graph).size(), 1u);
  EXPECT_EQ(SegmentsOf(*graph)[0].end, graph->nodes().size());
}

TEST(WithCheckpointSegments, AGlobWithoutAModuleIsRefused) {
  const auto violations = ViolationsOf(WithCheckpointSegments(Blocks(), {"h.*", "layer*"}).status());
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].field, "train.checkpoint_segments[1]");
  EXPECT_EQ(violations[0].description, "\"layer*\" matches no module of blocks");
}

TEST(WithCheckpointSegments, CastsBetweenAModulesNodesBelongToIt) {
  Graph graph = Blocks();
  std::vector<Node> nodes = graph.nodes();
  nodes[2].module_path.clear();
  graph.SetNodes(nodes);
  const auto segmented = WithCheckpointSegments(graph, {"h.0"});
  ASSERT_TRUE(segmented.ok()) << segmented.status();
  EXPECT_EQ(segmented->nodes()[2].segment, "h.0");
}

TEST(ForSecondRun, RunningStatisticsAreLeftAlone) {
  GraphBuilder b("norm");
  b.Output("y", b.BatchNorm2d("bn", b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 2, 3, 3}})));
  const Graph graph = std::move(b).Build().value();
  const Node node = ForSecondRun(graph.nodes()[0]);
  EXPECT_EQ(node.ValueOf("running_mean"), std::nullopt);
  EXPECT_EQ(node.ValueOf("running_var"), std::nullopt);
  EXPECT_EQ(node.ValueOf("weight"), graph.nodes()[0].ValueOf("weight"));
}

TEST(EstimateRun, ASegmentKeepsItsInputsOnly) {
  const Graph model = WithLossHead(Blocks()).value();
  const auto segmented = WithCheckpointSegments(model, {"h.*"});
  constexpr int64_t kBatch = 10;
  constexpr int64_t kValue = kBatch * 4 * 4;    // Bytes of each value of the blocks.
  const int64_t ends = 4 + 4 + kBatch * 3 * 4;  // Bytes of the loss, its weight and log_softmax.
  // Without segments, five values are kept: the stem's result, and gelu's input and the sum of each of the two blocks.
  // With segments, only three are kept: the inputs of the two blocks and of the head.
  EXPECT_NEAR(static_cast<double>(EstimateRun(model, kBatch).after_forward.activations), 5 * kValue + ends, 4);
  EXPECT_NEAR(static_cast<double>(EstimateRun(*segmented, kBatch).after_forward.activations), 3 * kValue + ends, 4);
  EXPECT_EQ(EstimateRun(*segmented, kBatch).after_backward.gradients,
            EstimateRun(model, kBatch).after_backward.gradients);
  EXPECT_EQ(EstimateRun(*segmented, kBatch).after_backward.workspace, 0);
}

}  // namespace
}  // namespace ampd::graph
