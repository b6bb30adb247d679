#include "worker/amp/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ampd/v1/job_spec.pb.h"
#include "graph/builder/builder.h"
#include "models/models.h"
#include "precision/pass.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"

namespace ampd::amp {
namespace {

EngineOptions AdamW() {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01};
  options.seed = 3;
  return options;
}

EngineOptions Sgd(double learning_rate) {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = learning_rate};
  options.seed = 3;
  return options;
}

std::unique_ptr<Engine> MakeEngine(const v1::PrecisionPolicy& policy, const EngineOptions& options) {
  return CpuEngine(SmallLenet({4, 8}), policy, options);
}

v1::PrecisionPolicy DynamicFp16(double initial, int interval) {
  v1::PrecisionPolicy policy = PresetNamed("fp16");
  policy.mutable_loss_scale()->mutable_dynamic()->set_initial(initial);
  policy.mutable_loss_scale()->mutable_dynamic()->set_cap(0x1p40);
  policy.mutable_loss_scale()->mutable_dynamic()->set_growth_interval(interval);
  return policy;
}

// Returns an engine that trains a layer with a dropout. If `keeps_dropout` is true, the model has an evaluation program
// of its own, in which the dropout stays.
std::unique_ptr<Engine> WithEvaluation(bool keeps_dropout) {
  graph::GraphBuilder b("layer");
  const graph::ValueId x =
      b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 1, kImageSize, kImageSize}});
  b.Output("logits", b.Dropout("drop", b.Linear("fc", b.Flatten("flat", x), kClasses), 0.5));
  const graph::Graph model = std::move(b).Build().value();
  EngineOptions options = Sgd(0.1);
  if (keeps_dropout) {
    options.eval_model = model;
  }
  return CpuEngine(model, PresetNamed("fp32"), options);
}

TEST(Evaluate, OfAProgramOfTheModelsOwn_KeepsItsDropout) {
  const auto own = WithEvaluation(/*keeps_dropout=*/true);
  const auto derived = WithEvaluation(/*keeps_dropout=*/false);
  const Batch batch = MakeBatch(1000, 64);
  EXPECT_EQ(derived->Evaluate(batch, 0).loss, derived->Evaluate(batch, 1).loss);
  EXPECT_NE(own->Evaluate(batch, 0).loss, derived->Evaluate(batch, 0).loss);
}

TEST(Evaluate, DrawsByTheSeedAndThePlaceOfTheBatch) {
  const auto engine = WithEvaluation(/*keeps_dropout=*/true);
  const Batch batch = MakeBatch(1000, 64);
  const double first = engine->Evaluate(batch, 0).loss;
  EXPECT_NE(engine->Evaluate(batch, 1).loss, first);
  EXPECT_EQ(engine->Evaluate(batch, 0).loss, first);
  EXPECT_EQ(WithEvaluation(/*keeps_dropout=*/true)->Evaluate(batch, 0).loss, first) << "in another attempt";
}

class PerPreset : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, PerPreset, testing::Values("fp32", "bf16", "fp16"));

TEST_P(PerPreset, LearnsWhatCanBeLearned) {
  auto engine = MakeEngine(PresetNamed(GetParam()), AdamW());
  const EvalSums before = engine->Evaluate(MakeBatch(1000, 256));
  for (uint64_t step = 0; step < 120; ++step) {
    engine->Step({MakeBatch(step, 32)});
  }
  const EvalSums after = engine->Evaluate(MakeBatch(1000, 256));
  EXPECT_LT(after.loss, 0.3 * before.loss);
  EXPECT_GT(after.num_correct, 230);
  EXPECT_EQ(after.num_samples, 256);
}

TEST_P(PerPreset, GoesOnBitForBitFromAnExportedState) {
  const v1::PrecisionPolicy policy =
      GetParam() == std::string("fp16") ? DynamicFp16(1 << 26, 5) : PresetNamed(GetParam());
  auto whole = MakeEngine(policy, AdamW());
  for (uint64_t step = 0; step < 15; ++step) {
    whole->Step({MakeBatch(step, 16)});
  }
  EngineOptions other_seed = AdamW();
  other_seed.seed = 99;
  auto resumed = MakeEngine(policy, other_seed);
  ASSERT_NE(DigestOf(*resumed), DigestOf(*whole));
  ASSERT_TRUE(resumed->ImportState(whole->ExportState()).ok());
  for (uint64_t step = 15; step < 30; ++step) {
    const StepResult a = whole->Step({MakeBatch(step, 16)});
    const StepResult b = resumed->Step({MakeBatch(step, 16)});
    EXPECT_EQ(a.loss, b.loss) << "step " << step;
    EXPECT_EQ(a.loss_scale, b.loss_scale);
    EXPECT_EQ(a.skipped, b.skipped);
    EXPECT_EQ(DigestOf(*whole), DigestOf(*resumed)) << "step " << step;
  }
}

// A layer that computes its own cross entropy, with the smallest number of classes for which the engine uses
// ampd.cross_entropy. If not `is_plain`, the loss's node has one more argument, whose value is LibTorch's default. Then
// the engine keeps LibTorch's op.
graph::Graph OfManyClasses(bool is_plain) {
  graph::GraphBuilder b("many_classes");
  const graph::ValueId images =
      b.Input("images", {graph::Dtype::kFloat32, {graph::Dim::Batch(), 1, kImageSize, kImageSize}});
  b.Output("logits", b.Linear("head", b.Flatten("", images), precision::kManyClasses));
  graph::Graph graph = std::move(b).Build().value();
  const graph::ValueId labels = graph.AddInput("labels", {graph::Dtype::kInt64, {graph::Dim::Batch()}});
  graph::Node node{.op = "aten.cross_entropy_loss.default",
                   .arguments = {{"self", graph.outputs().front().value}, {"target", labels}},
                   .outputs = {},
                   .module_path = {}};
  if (!is_plain) {
    node.Set("label_smoothing", 0.0);
  }
  const graph::ValueId loss = graph.AddNode(std::move(node), "loss", {graph::Dtype::kFloat32, {}});
  graph.SetOutputs({{"loss", loss}});
  return graph;
}

TEST_P(PerPreset, ALossOverManyClassesTrainsToLibTorchsBits) {
  const auto ours = CpuEngine(OfManyClasses(true), PresetNamed(GetParam()), AdamW());
  const auto theirs = CpuEngine(OfManyClasses(false), PresetNamed(GetParam()), AdamW());
  for (uint64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(ours->Step({MakeBatch(step, 300)}).loss, theirs->Step({MakeBatch(step, 300)}).loss) << "step " << step;
  }
  EXPECT_EQ(DigestOf(*ours), DigestOf(*theirs));
  EXPECT_EQ(ours->Evaluate(MakeBatch(99, 300)).loss, theirs->Evaluate(MakeBatch(99, 300)).loss);
}

TEST_P(PerPreset, EvaluationChangesNothing) {
  auto engine = MakeEngine(PresetNamed(GetParam()), AdamW());
  engine->Step({MakeBatch(1, 16)});
  const std::string before = DigestOf(*engine);
  const EvalSums first = engine->Evaluate(MakeBatch(2, 32));
  const EvalSums second = engine->Evaluate(MakeBatch(2, 32));
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(DigestOf(*engine), before);
}

TEST(Engine, AnOverflowSkipsTheStepNamesTheParameterAndRecovers) {
  auto engine = MakeEngine(DynamicFp16(std::ldexp(1.0, 40), 4), AdamW());
  const std::string before = DigestOf(*engine);
  const EngineState untouched = engine->ExportState();
  StepResult result = engine->Step({MakeBatch(1, 16)});
  EXPECT_TRUE(result.skipped);
  EXPECT_FALSE(std::isfinite(result.grad_norm));
  EXPECT_TRUE(std::isfinite(result.loss)) << "the loss itself is fp32 and fine";
  EXPECT_EQ(result.overflow_parameter, "classifier.2.weight") << "the first that the backward pass meets";
  EXPECT_GT(result.overflow_count, 0);
  EXPECT_EQ(result.scale_change, ScaleChange::kBackedOff);
  for (const auto& [name, tensor] : engine->ExportState().model) {
    EXPECT_EQ(Bytes(tensor), Bytes(untouched.model.at(name))) << name;
  }
  EXPECT_EQ(engine->applied_steps(), 0);
  int skipped = 1;
  int grown = 0;
  for (uint64_t step = 2; step < 60; ++step) {
    result = engine->Step({MakeBatch(step, 16)});
    skipped += result.skipped ? 1 : 0;
    grown += result.scale_change == ScaleChange::kGrown ? 1 : 0;
  }
  EXPECT_GT(skipped, 5);
  EXPECT_GT(grown, 0) << "it recovers";
  EXPECT_EQ(engine->skipped_steps(), skipped);
  EXPECT_EQ(engine->applied_steps(), 59 - skipped);
}

TEST(Engine, SkippedStepsDoNotAdvanceTheSchedule) {
  EngineOptions options = AdamW();
  options.schedule = {.warmup_steps = 100, .total_steps = 200};
  auto engine = MakeEngine(DynamicFp16(std::ldexp(1.0, 40), 1000), options);
  double last_rate = 0;
  for (uint64_t step = 0; step < 40; ++step) {
    const StepResult result = engine->Step({MakeBatch(step, 16)});
    EXPECT_DOUBLE_EQ(result.learning_rate, 1e-2 * (engine->applied_steps() + (result.skipped ? 1 : 0)) / 100);
    EXPECT_GE(result.learning_rate, last_rate);
    last_rate = result.learning_rate;
  }
  EXPECT_GT(engine->skipped_steps(), 0);
  EXPECT_GT(engine->applied_steps(), 0);
}

TEST_P(PerPreset, AStepBegunBeforeTheLastOneIsReadGivesTheSameBits) {
  const v1::PrecisionPolicy policy =
      GetParam() == std::string("fp16") ? DynamicFp16(1 << 16, 3) : PresetNamed(GetParam());
  const auto one_by_one = MakeEngine(policy, AdamW());
  const auto ahead = MakeEngine(policy, AdamW());
  ASSERT_EQ(ahead->max_pending(), 1);
  std::vector<StepResult> expected, results;
  for (uint64_t step = 0; step < 12; ++step) {
    Batch batch = MakeBatch(step, 16);
    if (step == 4 || step == 5 || step == 11) {
      batch.images.fill_(std::numeric_limits<float>::infinity());
    }
    expected.push_back(one_by_one->Step({batch}, step));
    ahead->Enqueue({batch}, step);
    if (ahead->num_pending() > 1) {
      results.push_back(ahead->AwaitStep());
      EXPECT_EQ(ahead->applied_steps() + ahead->skipped_steps(), static_cast<int64_t>(step)) << "counted as taken";
    }
  }
  results.push_back(ahead->AwaitStep());
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(results[i].loss), std::bit_cast<uint32_t>(expected[i].loss)) << i;
    EXPECT_EQ(results[i].skipped, expected[i].skipped) << i;
    EXPECT_EQ(results[i].loss_scale, expected[i].loss_scale) << i;
    EXPECT_EQ(results[i].scale_change, expected[i].scale_change) << i;
    EXPECT_EQ(results[i].learning_rate, expected[i].learning_rate) << i;
    EXPECT_EQ(results[i].overflow_parameter, expected[i].overflow_parameter) << i;
  }
  EXPECT_EQ(ahead->skipped_steps(), 3);
  EXPECT_EQ(ahead->scaler().state(), one_by_one->scaler().state());
  EXPECT_EQ(DigestOf(*ahead), DigestOf(*one_by_one));
}

TEST(Engine, AStateIsNeitherExportedNorImportedWhileAStepIsPending) {
  const auto engine = MakeEngine(PresetNamed("fp32"), AdamW());
  const EngineState state = engine->ExportState();
  engine->Enqueue({MakeBatch(1, 16)});
  EXPECT_THROW(engine->ExportState(), c10::Error);
  EXPECT_THROW(engine->ImportState(state).IgnoreError(), c10::Error);
  engine->AwaitStep();
  EXPECT_TRUE(engine->ImportState(state).ok());
}

TEST(Engine, AStaticScaleThatIsAPowerOfTwoChangesNoBitInFp32) {
  v1::PrecisionPolicy scaled = PresetNamed("fp32");
  scaled.mutable_loss_scale()->mutable_fixed()->set_scale(1024);
  auto plain = MakeEngine(PresetNamed("fp32"), AdamW());
  auto with_scale = MakeEngine(scaled, AdamW());
  for (uint64_t step = 0; step < 10; ++step) {
    const StepResult a = plain->Step({MakeBatch(step, 16)});
    const StepResult b = with_scale->Step({MakeBatch(step, 16)});
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
    EXPECT_EQ(b.loss_scale, 1024);
  }
  const TensorMap expected = plain->ExportState().model;
  for (const auto& [name, tensor] : with_scale->ExportState().model) {
    EXPECT_EQ(Bytes(tensor), Bytes(expected.at(name))) << name;
  }
}

// Returns the largest difference between corresponding elements of the tensors in `a` and `b`.
double Distance(const TensorMap& a, const TensorMap& b) {
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    largest = std::max(largest, tensor.sub(b.at(name)).abs().max().item().toDouble());
  }
  return largest;
}

TEST(Engine, MicroBatchesAddUpToTheWholeBatch) {
  auto whole = MakeEngine(PresetNamed("fp32"), Sgd(0.1));
  auto split = MakeEngine(PresetNamed("fp32"), Sgd(0.1));
  for (uint64_t step = 0; step < 5; ++step) {
    const Batch batch = MakeBatch(step, 32);
    const StepResult a = whole->Step({batch});
    std::vector<Batch> parts;
    for (int64_t begin = 0; begin < 32; begin += 8) {
      parts.push_back({batch.images.narrow(0, begin, 8), batch.labels.narrow(0, begin, 8)});
    }
    const StepResult b = split->Step(parts);
    EXPECT_NEAR(a.loss, b.loss, 1e-5);
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5);
  }
  EXPECT_LT(Distance(whole->ExportState().model, split->ExportState().model), 1e-6);
}

TEST(Engine, ClippingBoundsTheUpdateAndReportsTheNormBefore) {
  EngineOptions options = Sgd(1.0);
  options.clip_grad_norm = 1e-3;
  auto engine = MakeEngine(PresetNamed("fp32"), options);
  const TensorMap before = engine->ExportState().model;
  const StepResult result = engine->Step({MakeBatch(1, 16)});
  EXPECT_GT(result.grad_norm, 0.01);
  double moved = 0;
  for (const auto& [name, tensor] : engine->ExportState().model) {
    moved += tensor.sub(before.at(name)).square().sum().item().toDouble();
  }
  EXPECT_NEAR(std::sqrt(moved), 1e-3, 2e-5);
}

TEST(Engine, AStateOfAnotherModelIsRefused) {
  auto engine = MakeEngine(PresetNamed("fp32"), AdamW());
  EngineState state = engine->ExportState();
  state.model.erase("features.0.weight");
  EXPECT_EQ(engine->ImportState(state).code(), absl::StatusCode::kInvalidArgument);
  state = engine->ExportState();
  state.optimizer.erase(state.optimizer.begin());
  EXPECT_EQ(engine->ImportState(state).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Engine, ABufferOf64BitsIsExportedAsItIsAndOneOf16InFp32) {
  graph::Graph model = SmallLenet({4, 8});
  for (const graph::Dtype dtype : {graph::Dtype::kFloat64, graph::Dtype::kBFloat16}) {
    model.AddBuffer(std::string(graph::DtypeName(dtype)), {dtype, {3}}, graph::Initializer::Constant(1.0 / 3));
  }
  auto engine = CpuEngine(model, PresetNamed("fp32"), AdamW());
  EngineState state = engine->ExportState();
  EXPECT_EQ(state.model.at("float64").scalar_type(), at::kDouble);
  EXPECT_EQ(state.model.at("bfloat16").scalar_type(), at::kFloat);
  state.model.at("float64").fill_(1.0 / 7);
  ASSERT_TRUE(engine->ImportState(state).ok());
  EXPECT_EQ(engine->ExportState().model.at("float64")[0].item<double>(), 1.0 / 7);
}

}  // namespace
}  // namespace ampd::amp
