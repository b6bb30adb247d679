// Compares an engine whose steps are recorded and replayed with an engine that runs them directly. They must compute
// the same bits, whatever happens between the steps. Both engines run on the CPU with the emulated CUDA kernels;
// recorded_graph.h explains what a replay is on the CPU.
#include "worker/amp/captured_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/randint.h"
#include "ATen/ops/sum.h"
#include "ATen/ops/tensor.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "c10/util/Exception.h"
#include "graph/builder/builder.h"
#include "graph/heads.h"
#include "graph/passes.h"
#include "models/gan.h"
#include "precision/policy.h"
#include "tests/worker/amp/recorded_graph.h"
#include "tests/worker/amp/small_problem.h"

namespace ampd::amp {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;
using ::testing::HasSubstr;

constexpr int64_t kBatchSize = 6;
constexpr int kWarmUps = 3;

// A network with a convolution, a batch norm and dropout: besides weights, a step changes running statistics and draws
// random numbers.
graph::Graph NormAndDropout() {
  GraphBuilder b("norm_and_dropout");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kImageSize, kImageSize}});
  x = b.Conv2d("conv", x, {.out_channels = 3, .kernel_size = 3, .padding = 1});
  x = b.Relu("relu", b.BatchNorm2d("norm", x));
  x = b.Dropout("dropout", b.Flatten("flatten", x), 0.3);
  b.Output("logits", b.Linear("head", x, kClasses));
  return *std::move(b).Build();
}

// A residual block whose result has two readers.
graph::Graph Residual() {
  GraphBuilder b("residual");
  const graph::Conv2dOptions conv = {.out_channels = 8, .kernel_size = 3, .padding = 1, .bias = false};
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kImageSize, kImageSize}});
  x = b.Conv2d("stem", x, conv);
  x = b.Relu("relu", b.Add("", b.BatchNorm2d("norm", b.Conv2d("conv", x, conv)), x));
  x = b.Add("", b.BatchNorm2d("next.norm", b.Conv2d("next.conv", x, conv)), x);
  b.Output("logits", b.Linear("head", b.Flatten("flatten", b.GlobalAvgPool2d("pool", x)), kClasses));
  return *std::move(b).Build();
}

graph::Graph Gan() {
  return models::BuildGan({.noise_features = 4, .generator_width = 8, .discriminator_width = 2}).value();
}

Batch RandomBatch(int64_t size = kBatchSize) {
  return {at::rand({size, 1, kImageSize, kImageSize}), at::randint(0, kClasses, {size}, at::kLong)};
}

Batch Poisoned(Batch batch) {
  batch.images.data_ptr<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  return batch;
}

v1::PrecisionPolicy Preset(const std::string& name) {
  v1::PrecisionPolicy policy;
  policy.set_preset(name);
  return policy;
}

EngineOptions AdamW() {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01};
  options.schedule = {.warmup_steps = 4, .total_steps = 100};
  options.clip_grad_norm = 1.0;
  options.seed = 3;
  return options;
}

// Returns an engine on a CPU with native bf16 that uses the emulated CUDA kernels.
std::unique_ptr<Engine> MakeEngine(const graph::Graph& model, const v1::PrecisionPolicy& policy, EngineOptions options,
                                   const StepGraphs* graphs) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  const graph::Graph source = options.phases.empty() ? graph::WithLossHead(model).value() : model;
  const auto resolved = precision::ResolvePolicy(policy, source, cpu, precision::OptimizerKind::kAdam);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  options.device.cuda_kernels = RecordableKernels();
  options.device.graphs = graphs;
  return Engine::Create(model, *resolved, options).value();
}

std::string TextOf(const StepResult& result) {
  std::string text = std::to_string(result.loss_scale);
  for (const PhaseResult& phase : result.phases) {
    text += " " + phase.phase + " loss " + std::to_string(phase.loss) + " norm " + std::to_string(phase.grad_norm) +
            " rate " + std::to_string(phase.learning_rate) + (phase.skipped ? " skipped by " : " ") +
            phase.overflow_parameter + " samples " + std::to_string(phase.samples.size());
  }
  for (const Fp8Finding& finding : result.fp8) {
    text += " " + finding.module + (finding.demoted ? " demoted" : "") + " error " + std::to_string(finding.errors[0]);
  }
  return text;
}

// Tests with two engines that have the same model and policy; one of them records its steps.
class CapturedStepTest : public testing::Test {
 protected:
  void SetUp() override {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    generator.set_current_seed(5);
    GraphCounts() = {};
    FailingOp() = 0;
  }
  void TearDown() override { FailingOp() = 0; }

  void Make(const graph::Graph& model, const v1::PrecisionPolicy& policy, const EngineOptions& options = AdamW()) {
    eager_ = MakeEngine(model, policy, options, nullptr);
    captured_ = MakeEngine(model, policy, options, RecordedGraphs());
  }

  // Runs a step on both engines and checks that results and state are equal.
  void Step(const std::vector<Batch>& micro_batches) {
    const uint64_t stream = 100 + static_cast<uint64_t>(num_steps_++);
    const std::string expected = TextOf(eager_->Step(micro_batches, stream));
    ASSERT_EQ(TextOf(captured_->Step(micro_batches, stream)), expected) << "step " << num_steps_;
    ASSERT_EQ(captured_->graph_failure(), "");
    ExpectSameState();
  }

  void ExpectSameState() {
    const EngineState expected = eager_->ExportState();
    const EngineState actual = captured_->ExportState();
    ASSERT_EQ(DigestOf(*captured_), DigestOf(*eager_)) << "after " << num_steps_ << " steps";
    EXPECT_EQ(actual.scaler, expected.scaler);
    EXPECT_EQ(actual.applied_steps, expected.applied_steps);
    EXPECT_EQ(actual.applied_by_phase, expected.applied_by_phase);
  }

  void TightStep(const std::vector<Batch>& micro_batches);

  void WarmUpAndCapture() {
    for (int i = 0; i <= kWarmUps; ++i) {
      Step({RandomBatch()});
    }
    ASSERT_EQ(GraphCounts().replays, 1);
  }

  std::unique_ptr<Engine> eager_;
  std::unique_ptr<Engine> captured_;
  int num_steps_ = 0;
};

class CapturedPresetTest : public CapturedStepTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, CapturedPresetTest, testing::Values("fp32", "bf16", "fp16", "torch-amp-bf16"));

TEST_P(CapturedPresetTest, ReplaysGiveTheBitsOfStepsThatRun) {
  Make(NormAndDropout(), Preset(GetParam()));
  for (int i = 0; i < kWarmUps + 4; ++i) {
    Step({i == kWarmUps + 1 ? Poisoned(RandomBatch()) : RandomBatch()});
  }
  EXPECT_EQ(captured_->skipped_steps(), 1);
  EXPECT_EQ(GraphCounts().warm_ups, kWarmUps);
  EXPECT_EQ(GraphCounts().recordings, 1);
  EXPECT_EQ(GraphCounts().replays, 4);
}

TEST_P(CapturedPresetTest, MicroBatchesAreSummedAndEachDrawsItsOwnNumbers) {
  Make(NormAndDropout(), Preset(GetParam()));
  for (int i = 0; i < kWarmUps + 3; ++i) {
    Step({RandomBatch(), RandomBatch(), RandomBatch()});
  }
  EXPECT_EQ(GraphCounts().replays, 3);
}

TEST_P(CapturedPresetTest, TwoGradientsOfANormAreAddedInReplays) {
  Make(Residual(), Preset(GetParam()));
  for (int i = 0; i < kWarmUps + 3; ++i) {
    Step({RandomBatch()});
  }
  EXPECT_EQ(GraphCounts().replays, 3);
}

TEST_P(CapturedPresetTest, ImagesAsBytes_GiveTheBitsOfTheirNumbers) {
  EngineOptions options = AdamW();
  options.pixel_scales = at::tensor({0.3F, 0.7F}).view({1, 2});
  Make(NormAndDropout(), Preset(GetParam()), options);
  const auto of_numbers = MakeEngine(NormAndDropout(), Preset(GetParam()), AdamW(), nullptr);
  for (int i = 0; i < kWarmUps + 3; ++i) {
    Batch batch = RandomBatch();
    batch.images = at::randint(0, 256, batch.images.sizes(), at::kByte);
    Batch numbers = batch;
    numbers.images = batch.images.to(at::kFloat).div(at::tensor(255.0F)).sub(at::tensor(0.3F)).div(at::tensor(0.7F));
    const uint64_t stream = 100 + static_cast<uint64_t>(num_steps_);
    Step({batch});
    of_numbers->Step({numbers}, stream);
    ASSERT_EQ(DigestOf(*captured_), DigestOf(*of_numbers)) << "step " << i;
  }
  EXPECT_EQ(GraphCounts().replays, 3);
}

Batch WithLabelsLeft(Batch batch, int64_t num_left) {
  batch.labels.slice(0, num_left).fill_(graph::kIgnoredLabel);
  return batch;
}

TEST_P(CapturedPresetTest, MicroBatchesWeighWhatTheyCountInEveryReplay) {
  Make(NormAndDropout(), Preset(GetParam()));
  for (int64_t i = 0; i < kWarmUps + 4; ++i) {
    Step({WithLabelsLeft(RandomBatch(), 1 + i % 5), RandomBatch(), WithLabelsLeft(RandomBatch(), 6 - i % 6)});
  }
  EXPECT_EQ(GraphCounts().replays, 4);
  Step({RandomBatch(), WithLabelsLeft(RandomBatch(), 0), RandomBatch()});
  EXPECT_EQ(GraphCounts().replays, 4) << "a part without labels runs forward only";
  Step({RandomBatch(), RandomBatch(), WithLabelsLeft(RandomBatch(), 2)});
  EXPECT_EQ(GraphCounts().replays, 5);
  EXPECT_EQ(GraphCounts().recordings, 1);
}

TEST_F(CapturedStepTest, OverflowsBackTheScaleOffWithinReplays) {
  v1::PrecisionPolicy policy = Preset("fp16");
  policy.mutable_loss_scale()->mutable_dynamic()->set_initial(0x1p24);
  policy.mutable_loss_scale()->mutable_dynamic()->set_growth_interval(2);
  Make(NormAndDropout(), policy);
  WarmUpAndCapture();
  const EngineState before = captured_->ExportState();
  for (int i = 0; i < 8; ++i) {
    Step({RandomBatch()});
  }
  EXPECT_GT(captured_->skipped_steps(), before.skipped_steps) << "no replay was skipped";
  EXPECT_GT(captured_->applied_steps(), before.applied_steps) << "no replay was applied";
  EXPECT_EQ(GraphCounts().replays, 1 + 8);
}

TEST_F(CapturedStepTest, AStepOfAnotherShape_RunsAsItIsAndReplaysGoOn) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  Step({RandomBatch(kBatchSize - 2)});
  Step({RandomBatch(), RandomBatch()});
  EXPECT_EQ(GraphCounts().replays, 1);
  Step({RandomBatch()});
  EXPECT_EQ(GraphCounts().replays, 2);
  EXPECT_EQ(GraphCounts().recordings, 1);
}

TEST_F(CapturedStepTest, AnotherShapeDuringWarmUp_BeginsItAnew) {
  Make(NormAndDropout(), Preset("bf16"));
  for (const int64_t size : {4, 4, 6, 6, 6, 6}) {
    Step({RandomBatch(size)});
  }
  EXPECT_EQ(GraphCounts().warm_ups, 2 + kWarmUps);
  EXPECT_EQ(GraphCounts().replays, 1);
}

TEST_F(CapturedStepTest, StepsThatSample_RunAsTheyAre) {
  EngineOptions options = AdamW();
  options.sample_every_steps = 3;
  Make(NormAndDropout(), Preset("fp16"), options);
  for (int i = 0; i < 9; ++i) {
    Step({RandomBatch()});
  }
  EXPECT_EQ(GraphCounts().warm_ups, kWarmUps);
  EXPECT_EQ(GraphCounts().replays, 9 - 3 - kWarmUps);
  const int before = GraphCounts().replays;
  eager_->SampleNextStep();
  captured_->SampleNextStep();
  Step({RandomBatch()});
  EXPECT_EQ(GraphCounts().replays, before);
}

TEST_F(CapturedStepTest, WhereNoGradientIsInFp16_NoStepSamplesUnasked) {
  EngineOptions options = AdamW();
  options.sample_every_steps = 3;
  Make(NormAndDropout(), Preset("bf16"), options);
  for (int i = 0; i < kWarmUps + 4; ++i) {
    Step({RandomBatch()});
  }
  EXPECT_EQ(GraphCounts().replays, 4);
}

// While an object of this class exists and a recorded step (CUDA graph) holds memory, tensors of more than 2000 bytes
// cannot be allocated. The results that a step returns are smaller than that, so they can still be allocated.
class TightMemory {
 public:
  TightMemory() { FreeBytes() = 2000; }
  TightMemory(const TightMemory&) = delete;
  TightMemory& operator=(const TightMemory&) = delete;
  ~TightMemory() { FreeBytes() = std::numeric_limits<int64_t>::max(); }
};

// Runs a step on the recording engine while memory is tight, and compares it with the same step on the other engine,
// which has enough memory.
void CapturedStepTest::TightStep(const std::vector<Batch>& micro_batches) {
  const uint64_t stream = 100 + static_cast<uint64_t>(num_steps_++);
  const std::string expected = TextOf(eager_->Step(micro_batches, stream));
  StepResult result;
  {
    const TightMemory tight;
    ASSERT_NO_THROW(result = captured_->Step(micro_batches, stream)) << "step " << num_steps_;
  }
  ASSERT_EQ(TextOf(result), expected) << "step " << num_steps_;
  ExpectSameState();
}

TEST_F(CapturedStepTest, AStepThatRunsAsItIsInTightMemory_TakesTheRecordingsPlaceOnce) {
  EngineOptions options = AdamW();
  options.sample_every_steps = 6;
  Make(NormAndDropout(), Preset("fp16"), options);
  for (int i = 0; i < 6; ++i) {
    Step({RandomBatch()});  // The first of these steps samples activations.
  }
  ASSERT_EQ(GraphCounts().replays, 2);
  TightStep({RandomBatch()});  // This step samples activations, too.
  EXPECT_FALSE(captured_->replays());
  for (int i = 0; i < 3; ++i) {
    TightStep({RandomBatch()});
  }
  EXPECT_EQ(GraphCounts().warm_ups, kWarmUps) << "the same work was warmed up anew";
  EXPECT_EQ(GraphCounts().recordings, 2);
  EXPECT_EQ(GraphCounts().replays, 2 + 3);
  EXPECT_EQ(captured_->graph_failure(), "");
}

TEST_F(CapturedStepTest, AfterASampledStepTookTheRecordingsPlace_StepsSampleTenTimesLessOften) {
  EngineOptions options = AdamW();
  options.sample_every_steps = 6;
  Make(NormAndDropout(), Preset("fp16"), options);
  int num_sampled = 0;
  for (uint64_t step = 0; step <= 60; ++step) {
    const TightMemory tight;
    num_sampled += captured_->Step({RandomBatch()}, step).sampled_activations;
  }
  EXPECT_EQ(num_sampled, 3) << "steps 0, 6 and 60";
  EXPECT_EQ(GraphCounts().recordings, 2) << "recorded again after step 6 only";
}

TEST_F(CapturedStepTest, AStepOfAnotherShapeInTightMemory_TakesTheRecordingsPlaceToo) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  TightStep({RandomBatch(), RandomBatch()});
  EXPECT_FALSE(captured_->replays());
  TightStep({RandomBatch()});
  EXPECT_EQ(GraphCounts().recordings, 2);
  EXPECT_EQ(GraphCounts().replays, 2);
}

TEST_F(CapturedStepTest, AStepOfMoreSamples_TakesTheRecordingsPlaceWhereverItIs) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  Step({RandomBatch(kBatchSize - 1)});
  EXPECT_TRUE(captured_->replays());
  Step({RandomBatch(kBatchSize + 1)});
  EXPECT_FALSE(captured_->replays());
}

TEST_F(CapturedStepTest, AnEvaluationWithoutMemory_RunsAgainInTheRecordingsPlace) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  const Batch batch = RandomBatch();
  const EvalSums expected = eager_->Evaluate(batch);
  EXPECT_EQ(captured_->Evaluate(batch).loss, expected.loss);
  EXPECT_TRUE(captured_->replays()) << "there was room beside it";
  {
    const TightMemory tight;
    const EvalSums sums = captured_->Evaluate(batch);
    EXPECT_EQ(sums.loss, expected.loss);
    EXPECT_EQ(sums.num_correct, expected.num_correct);
  }
  EXPECT_FALSE(captured_->replays());
  TightStep({RandomBatch()});
  EXPECT_EQ(GraphCounts().warm_ups, kWarmUps);
  EXPECT_EQ(GraphCounts().replays, 2);
}

TEST_F(CapturedStepTest, AnEvaluationWithoutMemoryAndWithoutARecording_Fails) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  const Batch batch = RandomBatch();
  const TightMemory tight;
  EXPECT_THROW(eager_->Evaluate(batch), c10::OutOfMemoryError) << "the other engine's recording is not its to drop";
}

TEST_F(CapturedStepTest, EvaluationsSeeTheAveragesOfReplayedSteps) {
  EngineOptions options = AdamW();
  options.optimizer.ema_decay = 0.5;
  Make(NormAndDropout(), Preset("bf16"), options);
  const Batch batch = RandomBatch();
  for (int i = 0; i < kWarmUps + 3; ++i) {
    Step({RandomBatch()});
    EXPECT_EQ(captured_->Evaluate(batch).loss, eager_->Evaluate(batch).loss) << "step " << i;
  }
}

TEST_F(CapturedStepTest, WhatIsSetBetweenSteps_CountsInTheNextReplay) {
  Make(NormAndDropout(), Preset("fp16"));
  WarmUpAndCapture();
  for (Engine* engine : {eager_.get(), captured_.get()}) {
    engine->scaler().Set(128, 1);
    engine->set_rate_factor(0.25);
  }
  Step({RandomBatch()});
  EXPECT_EQ(captured_->scaler().scale(), 256);
  EXPECT_EQ(GraphCounts().replays, 2);
}

TEST_F(CapturedStepTest, AnImportedState_IsReplayedFrom) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  const EngineState early = eager_->ExportState();
  Step({RandomBatch()});
  for (Engine* engine : {eager_.get(), captured_.get()}) {
    ASSERT_TRUE(engine->ImportState(early).ok());
  }
  ExpectSameState();
  Step({RandomBatch()});
  EXPECT_EQ(captured_->applied_steps(), early.applied_steps + 1);
  EXPECT_EQ(GraphCounts().replays, 3);
}

TEST_F(CapturedStepTest, AStepBegunBeforeTheLastIsTaken_HasItsOwnRecord) {
  Make(NormAndDropout(), Preset("bf16"));
  WarmUpAndCapture();
  const std::vector<Batch> batches = {RandomBatch(), Poisoned(RandomBatch())};
  std::vector<std::string> results[2];
  for (Engine* engine : {eager_.get(), captured_.get()}) {
    engine->Enqueue({batches[0]}, 1);
    engine->Enqueue({batches[1]}, 2);
    results[engine == captured_.get()] = {TextOf(engine->AwaitStep()), TextOf(engine->AwaitStep())};
  }
  EXPECT_EQ(results[1], results[0]);
  ExpectSameState();
}

TEST_F(CapturedStepTest, PhasesOfAGan_AreReplayedUnderBothRules) {
  PhaseOptions discriminator{.name = "discriminator", .loss = "discriminator_loss", .parameters = "discriminator.*"};
  discriminator.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0.01, .momentum = 0.5};
  PhaseOptions generator{.name = "generator", .loss = "generator_loss", .parameters = "generator.*"};
  generator.optimizer = {.kind = OptimizerConfig::Kind::kAdam, .learning_rate = 0.01, .beta1 = 0.5};
  EngineOptions options;
  options.seed = 3;
  options.phases = {discriminator, generator};
  for (const auto rule : {v1::LossScale::EACH_ALONE, v1::LossScale::ALL_TOGETHER}) {
    GraphCounts() = {};
    v1::PrecisionPolicy policy = Preset("bf16");
    policy.mutable_loss_scale()->set_optimizer_skip(rule);
    policy.mutable_loss_scale()->mutable_dynamic()->set_growth_interval(2);
    Make(Gan(), policy, options);
    for (int i = 0; i < kWarmUps + 3; ++i) {
      Batch batch = RandomBatch();
      batch.labels = at::Tensor();
      batch.others["noise"] = at::rand({kBatchSize, 4});
      Step({i == kWarmUps + 1 ? Poisoned(batch) : batch});
    }
    EXPECT_EQ(captured_->skipped_steps(), 1);
    EXPECT_EQ(GraphCounts().replays, 3);
  }
}

// A model with the inputs "numbers" (B, 5) and "rows" (B). For each sample it takes the row of a table that "rows"
// names, and adds this row to "numbers".
graph::Graph Tower() {
  GraphBuilder b("tower");
  const ValueId numbers = b.Input("numbers", {Dtype::kFloat32, {Dim::Batch(), 5}});
  const ValueId rows = b.Input("rows", {Dtype::kInt64, {Dim::Batch()}});
  const ValueId table = b.Parameter("table", {7, 5}, graph::Initializer::Constant(0.5));
  b.Output("logits", b.Linear("head", b.Add("sum", numbers, b.Embedding("table", rows, table)), kClasses));
  return *std::move(b).Build();
}

TEST_F(CapturedStepTest, FieldsWithoutImages_AreReplayedToo) {
  Make(Tower(), Preset("bf16"));
  for (int i = 0; i < kWarmUps + 3; ++i) {
    const int64_t size = i == kWarmUps + 1 ? kBatchSize + 2 : kBatchSize;
    Step({{.images = {},
           .labels = at::randint(0, kClasses, {size}, at::kLong),
           .others = {{"numbers", at::rand({size, 5})}, {"rows", at::randint(0, 7, {size}, at::kLong)}}}});
  }
  EXPECT_EQ(GraphCounts().replays, 2) << "all but the larger batch, which was given room";
}

TEST_F(CapturedStepTest, WhatCannotBeRecorded_RunsAsItIsAndSaysWhy) {
  for (const int failing : {1, 34, 54}) {  // An op of the forward pass, the backward pass, the second micro-batch.
    GraphCounts() = {};
    FailingOp() = failing;
    Make(NormAndDropout(), Preset("bf16"));
    for (int i = 0; i < kWarmUps; ++i) {
      Step({RandomBatch(), RandomBatch()});
    }
    for (uint64_t i = 0; i < 2; ++i) {
      const std::vector<Batch> batches = {RandomBatch(), RandomBatch()};
      const std::string expected = TextOf(eager_->Step(batches, i));
      EXPECT_EQ(TextOf(captured_->Step(batches, i)), expected) << failing;
      EXPECT_THAT(captured_->graph_failure(), HasSubstr("the recording was broken off at aten::")) << failing;
      ExpectSameState();
    }
    EXPECT_EQ(GraphCounts().recordings, 1);
    EXPECT_EQ(GraphCounts().replays, 0);
  }
}

class CapturedFp8Test : public CapturedStepTest {
 protected:
  // Makes both engines for a network of linear layers, of which the second and the third compute in FP8. Step 0 is the
  // first canary step (a step that compares FP8 with bf16).
  void MakeWide(const char* preset, int canary_every_steps, double canary_bound) {
    GraphBuilder b("wide");
    ValueId x = b.Flatten("flatten", b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kImageSize, kImageSize}}));
    for (const char* layer : {"first", "second", "third"}) {
      x = b.Relu(absl::StrCat(layer, "_act"), b.Linear(layer, x, 128));
    }
    b.Output("logits", b.Linear("head", x, kClasses));
    v1::PrecisionPolicy policy = Preset(preset);
    policy.mutable_fp8()->set_canary_every_steps(canary_every_steps);
    policy.mutable_fp8()->set_canary_bound(canary_bound);
    Make(*std::move(b).Build(), policy);
    ASSERT_FALSE(captured_->ExportState().fp8.empty());
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      Step({RandomBatch()});
    }
  }
};
class CapturedFp8PresetTest : public CapturedFp8Test, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, CapturedFp8PresetTest, testing::Values("fp8", "fp8-delayed", "fp8-block"));

TEST_P(CapturedFp8PresetTest, ReplaysGiveTheBitsOfStepsThatRun) {
  MakeWide(GetParam(), 100, 1);
  Steps(1 + kWarmUps + 1);
  Step({Poisoned(RandomBatch())});
  Steps(1);
  EXPECT_EQ(captured_->skipped_steps(), 1);
  EXPECT_EQ(GraphCounts().recordings, 1);
  EXPECT_EQ(GraphCounts().replays, 3);
}

TEST_F(CapturedFp8Test, TheCanarysStepsRunAsTheyAre_AndWhenTheyDemoteStepsAreRecordedAnew) {
  MakeWide("fp8-delayed", 6, 1e-9);
  Step({Poisoned(RandomBatch())});  // This canary step is skipped, so no layer is demoted.
  Steps(kWarmUps + 2);
  ASSERT_EQ(GraphCounts().replays, 2);
  const EngineState in_fp8 = eager_->ExportState();
  Steps(1);  // This canary step demotes all layers.
  EXPECT_EQ(GraphCounts().replays, 2);
  Steps(kWarmUps + 1);
  EXPECT_EQ(GraphCounts().recordings, 2);
  EXPECT_EQ(GraphCounts().replays, 3);
  for (Engine* engine : {eager_.get(), captured_.get()}) {
    ASSERT_TRUE(engine->ImportState(in_fp8).ok());
  }
  Steps(2);  // The first of these steps is a canary step again.
  EXPECT_EQ(GraphCounts().replays, 3);
  EXPECT_EQ(GraphCounts().warm_ups, 2 * kWarmUps + 1);
}

// Tests the recorder itself, with which the other tests record steps.
TEST(RecordedGraph, ComputesOnlyWhenItIsReplayed) {
  const at::Tensor x = at::zeros({4});
  const auto graph = RecordedGraphs()->make(c10::Device(c10::DeviceType::CPU));
  EXPECT_EQ(graph->Capture(0, [&] { x.add_(x.add(1)); }), "");
  EXPECT_EQ(x.sum().item<float>(), 0);
  graph->Replay({});
  graph->Replay({});
  EXPECT_EQ(x.sum().item<float>(), 4 * 3);
}

TEST(RecordedGraph, WhileThereIsOne_OthersFindNoMoreMemoryThanIsFree) {
  auto graph = RecordedGraphs()->make(c10::Device(c10::DeviceType::CPU));
  const TightMemory tight;
  EXPECT_NO_THROW(at::zeros({1000}));
  EXPECT_EQ(graph->Capture(0, [] { at::zeros({1000}); }), "");
  EXPECT_EQ(graph->memory().own_bytes, 4000);
  EXPECT_NO_THROW(at::zeros({10}));
  EXPECT_THROW(at::zeros({1000}), c10::OutOfMemoryError);
  EXPECT_NO_THROW(graph->Replay({}));
  graph.reset();
  EXPECT_NO_THROW(at::zeros({1000}));
}

TEST(RecordedGraph, ANumberReadBack_CannotBeRecorded) {
  const at::Tensor x = at::zeros({4});
  const auto graph = RecordedGraphs()->make(c10::Device(c10::DeviceType::CPU));
  EXPECT_THAT(graph->Capture(0, [&] { x.add_(x.sum().item<float>()); }), HasSubstr("reads from the device"));
}

}  // namespace
}  // namespace ampd::amp
