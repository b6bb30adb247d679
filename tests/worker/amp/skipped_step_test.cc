// A skipped step changes only the count of batches, and its result names the parameter whose gradient overflowed.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ATen/ops/empty.h"
#include "base/random.h"
#include "graph/builder/builder.h"
#include "tests/worker/amp/cpu_engine.h"

namespace ampd::amp {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr int kStepImageSize = 6;
constexpr int kStepClasses = 4;

// A network with a convolution, a batch norm and dropout: besides weights, a step changes running statistics and draws
// random numbers.
graph::Graph NormAndDropout() {
  GraphBuilder b("norm_and_dropout");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kStepImageSize, kStepImageSize}});
  x = b.Conv2d("conv", x, {.out_channels = 4, .kernel_size = 3, .padding = 1});
  x = b.Relu("relu", b.BatchNorm2d("norm", x));
  x = b.Dropout("dropout", b.Flatten("flatten", x), 0.3);
  b.Output("logits", b.Linear("head", x, kStepClasses));
  return *std::move(b).Build();
}

// Three linear layers.
graph::Graph Mlp() {
  GraphBuilder b("mlp");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kStepImageSize, kStepImageSize}});
  x = b.Relu("relu0", b.Linear("first", b.Flatten("flatten", x), 16));
  x = b.Relu("relu1", b.Linear("middle", x, 16));
  b.Output("logits", b.Linear("head", x, kStepClasses));
  return *std::move(b).Build();
}

std::unique_ptr<Engine> MakeEngine(const graph::Graph& model, const v1::PrecisionPolicy& policy) {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01};
  options.schedule = {.warmup_steps = 100, .total_steps = 200};
  options.seed = 3;
  return CpuEngine(model, policy, options);
}

v1::PrecisionPolicy Static(const std::string& preset, double scale) {
  v1::PrecisionPolicy policy = PresetNamed(preset);
  policy.mutable_loss_scale()->mutable_fixed()->set_scale(scale);
  return policy;
}

v1::PrecisionPolicy DynamicFp16(double initial) {
  v1::PrecisionPolicy policy = PresetNamed("fp16");
  policy.mutable_loss_scale()->mutable_dynamic()->set_initial(initial);
  policy.mutable_loss_scale()->mutable_dynamic()->set_floor(0x1p-149);
  policy.mutable_loss_scale()->mutable_dynamic()->set_cap(0x1p40);
  return policy;
}

Batch MakeBatch(uint64_t seed, int64_t size = 16) {
  SeededRandom random(seed);
  Batch batch{at::empty({size, 1, kStepImageSize, kStepImageSize}, at::kFloat), at::empty({size}, at::kLong)};
  auto* pixels = batch.images.data_ptr<float>();
  for (int64_t i = 0; i < batch.images.numel(); ++i) {
    pixels[i] = static_cast<float>(static_cast<double>(random.Next() >> 11) * 0x1p-52 - 1);
  }
  for (int64_t i = 0; i < size; ++i) {
    batch.labels.data_ptr<int64_t>()[i] = static_cast<int64_t>(random.Next() % kStepClasses);
  }
  return batch;
}

Batch Poisoned(Batch batch) {
  batch.images.data_ptr<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  return batch;
}

std::string Bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

// Removes and returns the count of batches that the model's norm has seen.
int64_t TakeCount(EngineState& state) {
  return state.model.extract("norm.num_batches_tracked").mapped().item<int64_t>();
}

void ExpectSameTensors(const EngineState& a, const EngineState& b) {
  for (const auto& [ours, theirs] : {std::pair(&a.model, &b.model), {&a.optimizer, &b.optimizer}}) {
    ASSERT_EQ(ours->size(), theirs->size());
    for (const auto& [name, tensor] : *ours) {
      EXPECT_EQ(Bytes(tensor), Bytes(theirs->at(name))) << name;
    }
  }
  EXPECT_EQ(a.applied_steps, b.applied_steps);
}

TEST(SkippedStep, LeavesNoBitBehindButTheScaleAndTheCountOfItsBatch) {
  auto engine = MakeEngine(NormAndDropout(), DynamicFp16(0x1p40));
  int skipped = 0;
  int applied = 0;
  for (uint64_t step = 0; step < 40; ++step) {
    EngineState before = engine->ExportState();
    const StepResult result = engine->Step({MakeBatch(step)}, step);
    EngineState after = engine->ExportState();
    EXPECT_EQ(TakeCount(before), static_cast<int64_t>(step));
    EXPECT_EQ(TakeCount(after), static_cast<int64_t>(step) + 1);
    EXPECT_DOUBLE_EQ(result.learning_rate, 1e-2 * static_cast<double>(before.applied_steps + 1) / 100);
    if (result.skipped) {
      ++skipped;
      ExpectSameTensors(before, after);
      EXPECT_LT(after.scaler.scale, before.scaler.scale);
    } else {
      ++applied;
      EXPECT_EQ(after.applied_steps, before.applied_steps + 1);
      EXPECT_NE(Bytes(after.model.at("norm.running_mean")), Bytes(before.model.at("norm.running_mean")));
      EXPECT_NE(Bytes(after.model.at("norm.running_var")), Bytes(before.model.at("norm.running_var")));
    }
  }
  EXPECT_GT(skipped, 5);
  EXPECT_GT(applied, 5);
}

TEST(SkippedStep, OfAWindowWithOnePoisonedMicroBatchLeavesTheStatisticsOfBeforeTheWindow) {
  for (const int poisoned : {0, 1, 3}) {
    auto engine = MakeEngine(NormAndDropout(), Static("fp32", 1));
    engine->Step({MakeBatch(1), MakeBatch(2)}, 1);
    EngineState before = engine->ExportState();
    std::vector<Batch> window = {MakeBatch(3), MakeBatch(4), MakeBatch(5), MakeBatch(6)};
    window[static_cast<size_t>(poisoned)] = Poisoned(window[static_cast<size_t>(poisoned)]);
    const StepResult result = engine->Step(window, 2);
    EXPECT_TRUE(result.skipped);
    EXPECT_FALSE(std::isfinite(result.loss));
    EngineState after = engine->ExportState();
    EXPECT_EQ(TakeCount(after), TakeCount(before) + 4);
    ExpectSameTensors(before, after);
  }
}

TEST(SkippedStep, ARunWithOneIsTheRunWithoutItsBatch) {
  auto with = MakeEngine(NormAndDropout(), Static("bf16", 128));
  auto without = MakeEngine(NormAndDropout(), Static("bf16", 128));
  for (uint64_t step = 0; step < 12; ++step) {
    if (step % 4 == 2) {
      EXPECT_TRUE(with->Step({Poisoned(MakeBatch(step))}, step).skipped);
      continue;
    }
    EXPECT_EQ(with->Step({MakeBatch(step)}, step).loss, without->Step({MakeBatch(step)}, step).loss);
  }
  EngineState state_with = with->ExportState();
  EngineState state_without = without->ExportState();
  EXPECT_EQ(TakeCount(state_with), TakeCount(state_without) + 3);
  ExpectSameTensors(state_with, state_without);
  EXPECT_EQ(with->skipped_steps(), 3);
}

TEST(SkippedStep, AScaleThatNothingCanBeDividedByAppliesNothing) {
  auto engine = MakeEngine(Mlp(), DynamicFp16(0x1p-149));
  const EngineState before = engine->ExportState();
  const StepResult result = engine->Step({MakeBatch(1)});
  EXPECT_EQ(result.num_overflow_parameters, 0) << "every gradient underflowed to 0";
  EXPECT_TRUE(result.skipped);
  ExpectSameTensors(before, engine->ExportState());
}

TEST(RandomNumbers, AreThoseOfTheStreamAndTheMicroBatch) {
  const auto loss = [](uint64_t stream, const std::vector<Batch>& batches) {
    return MakeEngine(NormAndDropout(), Static("fp32", 1))->Step(batches, stream).loss;
  };
  const Batch batch = MakeBatch(1);
  EXPECT_EQ(loss(7, {batch}), loss(7, {batch}));
  EXPECT_NE(loss(7, {batch}), loss(8, {batch}));
  EXPECT_NE(loss(7, {batch, batch}), loss(7, {batch})) << "two micro-batches have two masks";
}

TEST(RandomNumbers, AStateMovedToAnotherEngineGoesOnBitForBit) {
  auto whole = MakeEngine(NormAndDropout(), Static("fp32", 1));
  for (uint64_t step = 0; step < 3; ++step) {
    whole->Step({MakeBatch(step)}, step);
  }
  auto resumed = MakeEngine(NormAndDropout(), Static("fp32", 1));
  resumed->Step({MakeBatch(50)}, 50);  // Draws random numbers that the other engine did not draw.
  ASSERT_TRUE(resumed->ImportState(whole->ExportState()).ok());
  for (uint64_t step = 3; step < 6; ++step) {
    EXPECT_EQ(whole->Step({MakeBatch(step)}, step).loss, resumed->Step({MakeBatch(step)}, step).loss);
  }
  ExpectSameTensors(whole->ExportState(), resumed->ExportState());
}

// Returns an engine for a network whose middle layer reads large values and outputs small ones, so that only the
// gradient of that layer's weight overflows fp16.
std::unique_ptr<Engine> OverflowingInTheMiddle(double scale) {
  auto engine = MakeEngine(Mlp(), Static("fp16", scale));
  EngineState state = engine->ExportState();
  state.model.at("first.weight").mul_(1e3);
  state.model.at("middle.weight").mul_(1e-3);
  EXPECT_TRUE(engine->ImportState(state).ok());
  return engine;
}

TEST(Attribution, NamesTheOneLayerWhoseGradientOverflows) {
  EXPECT_FALSE(OverflowingInTheMiddle(1)->Step({MakeBatch(1)}).skipped) << "without a scale there is no overflow";
  const StepResult result = OverflowingInTheMiddle(0x1p14)->Step({MakeBatch(1)});
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(result.overflow_parameter, "middle.weight");
  EXPECT_EQ(result.overflow_module, "middle");
  EXPECT_EQ(result.num_overflow_parameters, 1);
  EXPECT_GT(result.overflow_count, 0);
  EXPECT_LT(result.overflow_count, 16 * 16) << "not every element";
  EXPECT_EQ(result.total_overflow_count, result.overflow_count);
}

TEST(Attribution, OfAFaultThatSpreadsNamesWhereTheBackwardPassMetItFirst) {
  auto engine = MakeEngine(Mlp(), Static("fp32", 1));
  const StepResult result = engine->Step({Poisoned(MakeBatch(1))});
  EXPECT_EQ(result.overflow_parameter, "head.weight");
  EXPECT_EQ(result.overflow_module, "head");
  EXPECT_EQ(result.num_overflow_parameters, 6);
  EXPECT_EQ(result.overflow_count, 16 * kStepClasses) << "all of the head's weight";
  EXPECT_GT(result.total_overflow_count, result.overflow_count);
  EXPECT_FALSE(std::isfinite(result.loss)) << "which says that it began before the backward pass";
}

}  // namespace
}  // namespace ampd::amp
