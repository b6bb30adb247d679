// Compares steps replayed from a CUDA graph with steps that run op by op on a GPU: both must compute the same bits, and
// the host must never wait for the device. Skipped without a GPU; scripts/gpu-check runs it on one.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ATen/ops/empty.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "ampd/v1/precision.pb.h"
#include "c10/util/Exception.h"
#include "graph/builder/builder.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "precision/policy.h"
#include "tests/host_gpu.h"
#include "tests/worker/train/gpu/gpu.h"
#include "worker/amp/engine.h"

namespace ampd::train {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr int kSteps = 20;
constexpr int64_t kBatchSize = 32;
constexpr int64_t kImageSize = 16;
constexpr int64_t kVocabulary = 512;
constexpr int64_t kSequence = 128;

graph::Graph NormAndDropout() {
  GraphBuilder b("norm_and_dropout");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kImageSize, kImageSize}});
  x = b.Conv2d("conv", x, {.out_channels = 16, .kernel_size = 3, .padding = 1});
  x = b.Relu("relu", b.BatchNorm2d("norm", x));
  x = b.Dropout("dropout", b.Flatten("flatten", x), 0.3);
  b.Output("logits", b.Linear("head", x, 10));
  return *std::move(b).Build();
}

graph::Graph Gpt() {
  return models::BuildGpt(
             {.num_layers = 4, .width = 256, .num_heads = 4, .vocabulary = kVocabulary, .sequence_length = kSequence})
      .value();
}

// A GPT whose vocabulary is so large that its loss head becomes the op "ampd.linear_cross_entropy".
graph::Graph GptOfManyWords() {
  return models::BuildGpt(
             {.num_layers = 1, .width = 64, .num_heads = 2, .vocabulary = 8191, .sequence_length = kSequence})
      .value();
}

amp::Batch Images() {
  return {at::rand({kBatchSize, 1, kImageSize, kImageSize}), at::randint(0, 10, {kBatchSize}, at::kLong)};
}

amp::Batch Tokens() {
  const at::Tensor tokens = at::randint(0, kVocabulary, {8, kSequence}, at::kLong);
  return {tokens, tokens.mul(3).add(1).remainder(kVocabulary)};
}

struct Trained {
  std::vector<std::string> steps;
  amp::EngineState state;
  double seconds = 0;  // Time of the second half of the steps.
  bool replays = false;
  std::string failure;
};

class GpuGraphTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HostHasGpu()) {
      GTEST_SKIP() << kNeedsGpu;
    }
    ASSERT_TRUE(Gpu().ok()) << Gpu().status();
    ASSERT_NE(Gpu()->graphs, nullptr) << Gpu()->why_no_graphs;
  }

  static std::unique_ptr<amp::Engine> Make(const graph::Graph& model, const std::string& preset, bool graphs,
                                           const std::vector<std::string>& segments = {},
                                           const at::Tensor& pixel_scales = {}) {
    v1::PrecisionPolicy policy;
    policy.set_preset(preset);
    const auto resolved =
        precision::ResolvePolicy(policy, *graph::WithLossHead(model), Described(true), precision::OptimizerKind::kAdam);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    amp::EngineOptions options;
    options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
    options.clip_grad_norm = 1.0;
    options.seed = 7;
    options.checkpoint_segments = segments;
    options.pixel_scales = pixel_scales;
    options.device = *Gpu();
    options.device.graphs = graphs ? options.device.graphs : nullptr;
    auto engine = amp::Engine::Create(model, *resolved, options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  static Trained Train(amp::Engine& engine, const std::vector<std::vector<amp::Batch>>& steps) {
    Trained run;
    absl::Time half = absl::Now();
    for (size_t i = 0; i < steps.size(); ++i) {
      half = i == steps.size() / 2 ? absl::Now() : half;
      const amp::StepResult result = engine.Step(steps[i], 100 + i);
      run.steps.push_back(std::to_string(result.loss) + (result.skipped ? " skipped by " : " ") +
                          result.overflow_parameter + " at " + std::to_string(result.loss_scale));
    }
    run.seconds = absl::ToDoubleSeconds(absl::Now() - half);
    run.state = engine.ExportState();
    run.replays = engine.replays();
    run.failure = engine.graph_failure();
    return run;
  }

  static void ExpectSameState(const amp::EngineState& one, const amp::EngineState& other, const std::string& preset) {
    for (const auto& [ours, theirs] :
         {std::pair(&one.model, &other.model), {&one.optimizer, &other.optimizer}, {&one.fp8, &other.fp8}}) {
      for (const auto& [name, tensor] : *ours) {
        EXPECT_EQ(std::memcmp(tensor.const_data_ptr(), theirs->at(name).const_data_ptr(), tensor.nbytes()), 0)
            << preset << " " << name;
      }
    }
  }

  static void ExpectSameBits(const graph::Graph& model, const std::string& preset,
                             const std::vector<std::vector<amp::Batch>>& steps,
                             const std::vector<std::string>& segments = {}) {
    const Trained run = Train(*Make(model, preset, false, segments), steps);
    const Trained replayed = Train(*Make(model, preset, true, segments), steps);
    EXPECT_FALSE(run.replays);
    EXPECT_TRUE(replayed.replays) << preset << ": " << replayed.failure;
    EXPECT_EQ(replayed.steps, run.steps) << preset;
    ExpectSameState(replayed.state, run.state, preset);
    constexpr int kTimedSteps = kSteps - kSteps / 2;
    std::printf("%s, %s: %.2f ms a step op by op, %.2f replayed\n", model.name().c_str(), preset.c_str(),
                1e3 * run.seconds / kTimedSteps, 1e3 * replayed.seconds / kTimedSteps);
  }
};

// Runs steps of two micro-batches, each made by `batch`. Checks that Enqueue does not make the host wait for the
// device.
void ExpectNoWaits(amp::Engine& engine, amp::Batch (*batch)(), const char* preset) {
  const amp::StepGraphs& graphs = *Gpu()->graphs;
  for (uint64_t i = 0; i < kSteps; ++i) {
    const std::vector<amp::Batch> batches = {batch(), batch()};
    graphs.forbid_waits(i > 0);  // In step 0 the host may wait: it copies scalars and measures the error of FP8.
    EXPECT_NO_THROW(engine.Enqueue(batches, 100 + i)) << preset << " step " << i;
    graphs.forbid_waits(false);
    engine.AwaitStep();
  }
}

std::vector<std::vector<amp::Batch>> TokenSteps() {
  std::vector<std::vector<amp::Batch>> steps(kSteps);
  for (auto& step : steps) {
    step = {Tokens()};
  }
  return steps;
}

// A test for one preset, so that an exception with one preset does not end the tests of the others.
class GpuGraphPresetTest : public GpuGraphTest, public testing::WithParamInterface<const char*> {};

std::string PresetInName(const testing::TestParamInfo<const char*>& info) {
  return absl::StrReplaceAll(info.param, {{"-", "_"}});
}

using GpuGraphImagesTest = GpuGraphPresetTest;

TEST_P(GpuGraphImagesTest, ReplaysGiveTheBitsOfStepsThatRunOpByOp) {
  std::vector<std::vector<amp::Batch>> steps(kSteps);
  for (int i = 0; i < kSteps; ++i) {
    steps[i] = {Images(), Images()};
    if (i == kSteps / 2) {
      steps[i][1].images.fill_(std::numeric_limits<float>::quiet_NaN());
    }
  }
  ExpectSameBits(NormAndDropout(), GetParam(), steps);
}

// The host does not wait for the device between Enqueue and AwaitStep. LibTorch itself reports waits. Recording a CUDA
// graph also fails if the host waits.
TEST_P(GpuGraphImagesTest, NothingMakesTheHostWaitFromEnqueueToTake) {
  for (const bool replayed : {false, true}) {
    const auto engine = Make(NormAndDropout(), GetParam(), replayed);
    ExpectNoWaits(*engine, Images, GetParam());
    EXPECT_EQ(engine->replays(), replayed);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuGraphImagesTest, testing::Values("fp32", "bf16", "fp16"), PresetInName);

// A batch of 1 MiB or more is copied to the GPU on a separate stream, while the GPU computes the previous step. In this
// test, batches are bytes in pinned memory. The test overwrites a batch's memory as soon as its step has ended.
TEST_P(GpuGraphImagesTest, LargeBatchesInMemoryThatIsUsedAgain_GiveTheBitsOfStepsThatRunOpByOp) {
  constexpr int64_t kMany = 8192;
  const at::Tensor scales = at::tensor({0.3F, 0.7F}).view({1, 2});
  const auto replayed = Make(NormAndDropout(), GetParam(), /*graphs=*/true, {}, scales);
  const auto direct = Make(NormAndDropout(), GetParam(), /*graphs=*/false, {}, scales);
  const auto pinned = at::TensorOptions().pinned_memory(true);
  std::vector<amp::Batch> used(2);
  for (amp::Batch& batch : used) {
    batch.images = at::empty({kMany, 1, kImageSize, kImageSize}, pinned.dtype(at::kByte));
    batch.labels = at::empty({kMany}, pinned.dtype(at::kLong));
  }
  std::vector<amp::Batch> kept;
  for (uint64_t i = 0; i < kSteps; ++i) {
    amp::Batch& batch = used[i % used.size()];
    kept.push_back({at::randint(0, 256, batch.images.sizes(), at::kByte), at::randint(0, 10, {kMany}, at::kLong)});
    batch.images.copy_(kept.back().images);
    batch.labels.copy_(kept.back().labels);
    replayed->Enqueue({batch}, 100 + i);
    if (i > 0) {
      replayed->AwaitStep();  // Waits for the previous step. Step i may still be running.
    }
  }
  replayed->AwaitStep();
  for (uint64_t i = 0; i < kSteps; ++i) {
    direct->Step({kept[i]}, 100 + i);
  }
  EXPECT_TRUE(replayed->replays()) << replayed->graph_failure();
  ExpectSameState(replayed->ExportState(), direct->ExportState(), GetParam());
}

using GpuGraphGptTest = GpuGraphPresetTest;

TEST_P(GpuGraphGptTest, ReplaysGiveTheBitsOfStepsThatRunOpByOp) { ExpectSameBits(Gpt(), GetParam(), TokenSteps()); }

INSTANTIATE_TEST_SUITE_P(Presets, GpuGraphGptTest,
                         testing::Values("fp32", "tf32", "bf16", "fp16", "fp8", "fp8-delayed", "fp8-block"),
                         PresetInName);

using GpuGraphLossHeadTest = GpuGraphPresetTest;

TEST_P(GpuGraphLossHeadTest, ReplaysGiveTheBitsOfStepsThatRunOpByOp) {
  ExpectSameBits(GptOfManyWords(), GetParam(), TokenSteps());
}

TEST_P(GpuGraphLossHeadTest, NothingMakesTheHostWaitFromEnqueueToTake) {
  for (const bool replayed : {false, true}) {
    const auto engine = Make(GptOfManyWords(), GetParam(), replayed);
    ExpectNoWaits(*engine, Tokens, GetParam());
    EXPECT_EQ(engine->replays(), replayed);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuGraphLossHeadTest, testing::Values("fp32", "bf16", "fp16"), PresetInName);

using GpuGraphFp8Test = GpuGraphPresetTest;

TEST_P(GpuGraphFp8Test, NothingMakesTheHostWaitFromEnqueueToTake) {
  for (const bool replayed : {false, true}) {
    const auto engine = Make(Gpt(), GetParam(), replayed);
    ASSERT_FALSE(engine->ExportState().fp8.empty()) << "no layer is in FP8";
    ExpectNoWaits(*engine, Tokens, GetParam());
    EXPECT_EQ(engine->replays(), replayed);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuGraphFp8Test, testing::Values("fp8", "fp8-delayed", "fp8-block"), PresetInName);

TEST_F(GpuGraphTest, AGptIsReplayedWithCheckpointSegments) {
  ExpectSameBits(Gpt(), "bf16", TokenSteps(), {"transformer.h.*"});
}

TEST_F(GpuGraphTest, AStepOfAnotherShapeInBetween_ChangesNothingElse) {
  std::vector<std::vector<amp::Batch>> steps(kSteps);
  for (int i = 0; i < kSteps; ++i) {
    steps[i] = {Images()};
    if (i % 5 == 4) {
      steps[i][0] = {steps[i][0].images.narrow(0, 0, 8), steps[i][0].labels.narrow(0, 0, 8)};
    }
  }
  ExpectSameBits(NormAndDropout(), "bf16", steps);
}

TEST_F(GpuGraphTest, TheWatchSeesAWait) {
  const amp::StepGraphs& graphs = *Gpu()->graphs;
  const at::Tensor one = at::ones({1}, at::TensorOptions().device(Gpu()->device));
  graphs.forbid_waits(true);
  EXPECT_THROW((void)one.item<float>(), c10::Error) << "the watch sees nothing";
  graphs.forbid_waits(false);
}

}  // namespace
}  // namespace ampd::train
