// Tests engines whose policies are resolved for a GPU, so that layer norms are computed by ampd's kernels together with
// the additions and casts around them. The kernels run over the emulated CUDA on CPU tensors.
#include "precision/fused_norms.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ATen/Context.h"
#include "ATen/ops/full.h"
#include "ATen/ops/randint.h"
#include "ampd/v1/worker.pb.h"
#include "graph/graph.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "precision/policy.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/recorded_graph.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/activation_sample.h"
#include "worker/amp/ops/layer_norm.h"
#include "worker/executor/executor.h"

namespace ampd::amp {
namespace {

constexpr int64_t kVocabulary = 24;
constexpr int64_t kLength = 6;

graph::Graph Gpt() {
  return models::BuildGpt(
             {.num_layers = 1, .width = 32, .num_heads = 2, .vocabulary = kVocabulary, .sequence_length = kLength})
      .value();
}

Batch RandomTokens() {
  return {at::randint(0, kVocabulary, {3, kLength}, at::kLong), at::randint(0, kVocabulary, {3 * kLength}, at::kLong)};
}

precision::ResolvedPolicy OnAGpu(const graph::Graph& model, const std::string& preset) {
  v1::Device gpu;
  gpu.set_kind(v1::Device::GPU);
  gpu.set_capability_major(9);
  return precision::ResolvePolicy(PresetNamed(preset), graph::WithLossHead(model).value(), gpu,
                                  precision::OptimizerKind::kAdam)
      .value();
}

struct Setup {
  bool with_kernels = true;
  bool with_graphs = false;
  std::vector<std::string> checkpoint_segments = {};
};

std::unique_ptr<Engine> MakeEngine(const graph::Graph& model, const std::string& preset, const Setup& setup) {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2};
  options.seed = 3;
  options.checkpoint_segments = setup.checkpoint_segments;
  options.device.cuda_kernels = setup.with_kernels ? RecordableKernels() : nullptr;
  options.device.graphs = setup.with_graphs ? RecordedGraphs() : nullptr;
  return Engine::Create(model, OnAGpu(model, preset), options).value();
}

class FusedNormsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { at::manual_seed(5); }
};
INSTANTIATE_TEST_SUITE_P(Presets, FusedNormsTest,
                         testing::Values("fp32", "bf16", "fp16", "torch-amp-bf16", "apex-o2", "keras-mixed-bfloat16",
                                         "megatron-bf16", "fp8"));

TEST_P(FusedNormsTest, LossesAreNearThoseOfLibTorchsOps) {
  const auto ours = MakeEngine(Gpt(), GetParam(), {});
  const auto theirs = MakeEngine(Gpt(), GetParam(), {.with_kernels = false});
  for (int step = 0; step < 4; ++step) {
    const Batch batch = RandomTokens();
    const StepResult result = ours->Step({batch});
    const StepResult expected = theirs->Step({batch});
    EXPECT_NEAR(result.loss, expected.loss, 2e-2 * expected.loss) << step;
    EXPECT_EQ(result.skipped, expected.skipped) << step;
    if (!expected.skipped) {
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 5e-2 * expected.grad_norm) << step;
    }
  }
}

TEST_P(FusedNormsTest, CheckpointSegmentsGiveTheSameBits) {
  const auto whole = MakeEngine(Gpt(), GetParam(), {});
  const auto segmented = MakeEngine(Gpt(), GetParam(), {.checkpoint_segments = {"transformer.h.*"}});
  for (int step = 0; step < 2; ++step) {
    const Batch batch = RandomTokens();
    whole->Step({batch});
    segmented->Step({batch});
  }
  EXPECT_EQ(DigestOf(*segmented), DigestOf(*whole));
}

TEST(FusedNorms, RecordedStepsGiveTheSameBits) {
  GraphCounts() = {};
  const auto eager = MakeEngine(Gpt(), "bf16", {});
  const auto recorded = MakeEngine(Gpt(), "bf16", {.with_graphs = true});
  for (int step = 0; step < 6; ++step) {
    const Batch batch = RandomTokens();
    eager->Step({batch});
    recorded->Step({batch});
    EXPECT_EQ(recorded->graph_failure(), "");
  }
  EXPECT_GT(GraphCounts().replays, 0);
  EXPECT_EQ(DigestOf(*recorded), DigestOf(*eager));
}

// If a sum overflows in the op that computes both the sum and its norm, the fault is reported for the addition and not
// for the norm.
TEST(FusedNorms, AnOverflowOfTheSumIsFoundInTheSum) {
  const graph::TensorType fp16 = {graph::Dtype::kFloat16, {graph::Dim::Batch(), 8}};
  graph::Graph program("residual");
  const graph::ValueId x = program.AddInput("x", fp16);
  const graph::ValueId y = program.AddInput("y", fp16);
  const graph::ValueId sum = program.AddNode(
      {.op = "aten.add.Tensor", .arguments = {{"self", x}, {"other", y}}, .outputs = {}, .module_path = {}}, "sum",
      fp16);
  program.AddOutput("norm",
                    program.AddNode({.op = "aten.layer_norm.default",
                                     .arguments = {{"input", sum}, {"normalized_shape", std::vector<int64_t>{8}}},
                                     .outputs = {},
                                     .module_path = "norm"},
                                    "norm", fp16));
  executor::OpRegistry registry;
  RegisterLayerNorm(registry, {.cuda_kernels = RecordableKernels()});
  const auto executor = executor::Executor::Create(precision::WithFusedNorms(program), registry).value();
  ASSERT_TRUE(executor->Bind({}).ok());
  ActivationSampler sampler(executor->graph());
  const at::Tensor large = at::full({2, 8}, 5e4, at::kHalf);
  executor->Run({large, large}, &sampler);
  ASSERT_TRUE(sampler.Fault().has_value());
  EXPECT_EQ(sampler.Fault()->op, "aten.add.Tensor");
  EXPECT_EQ(sampler.Fault()->value, "sum");
}

}  // namespace
}  // namespace ampd::amp
