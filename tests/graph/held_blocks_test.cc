#include "graph/cost/held_blocks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace ampd::graph {
namespace {

TEST(HeldBlocks, ABlockIsHeldUntilItsLastHolderReleasesIt) {
  HeldBlocks blocks;
  const HeldBlocks::Id block = blocks.Allocate(HeldBlocks::kActivation, 8);
  EXPECT_TRUE(blocks.HeldOnce(block));
  EXPECT_EQ(blocks.BytesOf(block), 8);
  blocks.Hold(block);
  EXPECT_FALSE(blocks.HeldOnce(block));
  blocks.Release(block);
  EXPECT_EQ(blocks.held().activations, 8);
  blocks.BecomeGradient(block);
  EXPECT_EQ(blocks.held().activations, 0);
  EXPECT_EQ(blocks.held().gradients, 8);
  blocks.Release(block);
  EXPECT_EQ(blocks.held().total(), 0);
  EXPECT_EQ(blocks.peak().total(), 8);
}

TEST(HeldBlocks, MemoryThatIsCountedElsewhereHasOtherHoldersAndNoBytes) {
  HeldBlocks blocks;
  const HeldBlocks::Id outside;
  blocks.Release(blocks.Hold(outside));
  blocks.BecomeGradient(outside);
  EXPECT_FALSE(blocks.HeldOnce(outside));
  EXPECT_EQ(blocks.BytesOf(outside), 0);
  EXPECT_EQ(blocks.held().total(), 0);
}

// The loss of "ampd.cross_entropy" writes the gradient of its logits over the logits if nothing else holds them. Logits
// that are a view of a parameter, or an input, are held by others, so their gradient has its own memory.
TEST(EstimateRun, LogitsThatAreNotCountedGetAGradientOfTheirOwn) {
  constexpr int64_t kClasses = 5000;
  constexpr int64_t kBatchSize = 3;
  Graph graph("shown");
  const ValueId bias = graph.AddParameter("bias", {Dtype::kFloat32, {kClasses}}, Initializer::Constant(0));
  const ValueId labels = graph.AddInput("labels", {Dtype::kInt64, {Dim::Batch()}});
  const Node expand{.op = "aten.expand.default",
                    .arguments = {{"self", bias}, {"size", Shape{Dim::Batch(), kClasses}}},
                    .outputs = {},
                    .module_path = ""};
  const ValueId logits = graph.AddNode(expand, "logits", {Dtype::kFloat32, {Dim::Batch(), kClasses}});
  const Node loss{.op = "ampd.cross_entropy",
                  .arguments = {{"self", logits}, {"target", labels}, {"reduction", int64_t{1}}},
                  .outputs = {},
                  .module_path = ""};
  graph.AddOutput("loss", graph.AddNode(loss, "loss", {Dtype::kFloat32, {}}));
  for (const bool on_gpu : {false, true}) {
    const RunMemory memory = EstimateRun(graph, kBatchSize, {.on_gpu = on_gpu});
    EXPECT_GE(memory.peak.workspace, 4 * kBatchSize * kClasses);
    EXPECT_EQ(memory.after_backward.gradients, 4 * kClasses);
  }
}

}  // namespace
}  // namespace ampd::graph
