// Tests the counts of batches that norms keep, like torch.nn.BatchNorm's num_batches_tracked: each forward pass in
// training adds one.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ops/full.h"
#include "base/error.h"
#include "graph/builder/builder.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::GraphBuilder;
using graph::ValueId;

constexpr char kOnce[] = "once.num_batches_tracked";
constexpr char kTwice[] = "twice.num_batches_tracked";

// A model with a norm that runs once per forward pass, and another that runs twice.
graph::Graph Norms() {
  GraphBuilder b("norms");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 1, kImageSize, kImageSize}});
  x = b.BatchNorm2d("once", b.Conv2d("conv", x, {.out_channels = 2, .kernel_size = 3, .padding = 1}));
  x = b.BatchNorm2d("twice", b.Relu("relu", b.BatchNorm2d("twice", x)));
  b.Output("logits", b.Linear("head", b.Flatten("flatten", x), kClasses));
  return *std::move(b).Build();
}

std::unique_ptr<Engine> NormsEngine(EngineOptions options = {}) {
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
  return CpuEngine(Norms(), PresetNamed("fp32"), options);
}

Batch BatchOf(uint64_t seed) { return MakeBatch(seed, /*size=*/8); }

Batch Poisoned(Batch batch) {
  batch.images.data_ptr<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  return batch;
}

using Counts = std::pair<int64_t, int64_t>;

Counts CountsOf(const Engine& engine) {
  const TensorMap model = engine.ExportState().model;
  EXPECT_EQ(model.at(kOnce).scalar_type(), at::kLong);
  EXPECT_EQ(model.at(kOnce).dim(), 0);
  return {model.at(kOnce).item<int64_t>(), model.at(kTwice).item<int64_t>()};
}

TEST(BatchCounts, GrowByEveryRunOfTheNormInEveryMicroBatch) {
  const auto engine = NormsEngine();
  EXPECT_EQ(CountsOf(*engine), Counts(0, 0));
  engine->Step({BatchOf(1)});
  EXPECT_EQ(CountsOf(*engine), Counts(1, 2));
  engine->Step({BatchOf(2), BatchOf(3), BatchOf(4)});
  EXPECT_EQ(CountsOf(*engine), Counts(4, 8));
}

TEST(BatchCounts, HaveTheSkippedStepToo) {
  const auto engine = NormsEngine();
  EXPECT_FALSE(engine->Step({BatchOf(1)}).skipped);
  EXPECT_TRUE(engine->Step({BatchOf(2), Poisoned(BatchOf(3))}).skipped) << "whose forwards ran";
  EXPECT_EQ(CountsOf(*engine), Counts(3, 6));
}

TEST(BatchCounts, HaveNoEvaluationAndNothingThatRunsAgainInTheBackwardPass) {
  const auto engine = NormsEngine({.checkpoint_segments = {"once", "twice"}});
  engine->Step({BatchOf(1)});
  engine->Evaluate(BatchOf(2));
  EXPECT_EQ(CountsOf(*engine), Counts(1, 2));
}

TEST(BatchCounts, AreNoPartOfTheAverages) {
  EngineOptions options;
  options.optimizer.ema_decay = 0.9;
  const auto engine = CpuEngine(Norms(), PresetNamed("fp32"), options);
  engine->Step({BatchOf(1)});
  const EngineState state = engine->ExportState();
  EXPECT_TRUE(state.optimizer.contains("head.weight.average"));
  EXPECT_FALSE(state.optimizer.contains(std::string(kOnce) + ".average"));
}

TEST(BatchCounts, GoOnFromThoseOfAnImportedState) {
  const auto first = NormsEngine();
  first->Step({BatchOf(1)});
  EngineState state = first->ExportState();
  state.model.at(kOnce) = at::full({}, int64_t{1} << 40, at::kLong);
  const auto second = NormsEngine();
  second->Step({BatchOf(2)});
  ASSERT_TRUE(second->ImportState(state).ok());
  EXPECT_EQ(CountsOf(*second), Counts(int64_t{1} << 40, 2));
  second->Step({BatchOf(3), BatchOf(4)});
  EXPECT_EQ(CountsOf(*second), Counts((int64_t{1} << 40) + 2, 6));
}

TEST(BatchCounts, AnExportedStateKeepsThoseThatItHas) {
  const auto engine = NormsEngine();
  EngineState state = engine->ExportState();
  const TensorMap before = state.model;
  engine->Step({BatchOf(1)});
  const EngineState after = engine->ExportState(std::move(state));
  EXPECT_EQ(before.at(kOnce).item<int64_t>(), 0);
  EXPECT_EQ(after.model.at(kOnce).item<int64_t>(), 1);
}

// Checkpoints of older versions have no counts of batches.
TEST(BatchCounts, BeginAtZeroWhereTheImportedStateLacksThem) {
  const auto engine = NormsEngine();
  engine->Step({BatchOf(1)});
  EngineState state = engine->ExportState();
  state.model.erase(kOnce);
  state.model.erase(kTwice);
  ASSERT_TRUE(engine->ImportState(state).ok());
  EXPECT_EQ(CountsOf(*engine), Counts(0, 0));
  engine->Step({BatchOf(1)});
  EXPECT_EQ(CountsOf(*engine), Counts(1, 2));
}

TEST(BatchCounts, OfAnotherKind_AreABadState) {
  const auto engine = NormsEngine();
  for (const at::Tensor& odd : {at::full({1}, 3, at::kLong), at::full({}, 3, at::kFloat)}) {
    EngineState state = engine->ExportState();
    state.model.at(kOnce) = odd;
    const absl::Status status = engine->ImportState(state);
    EXPECT_EQ(ReasonOf(status), "BAD_STATE");
    EXPECT_EQ(status.message(), "the state's once.num_batches_tracked is no int64 scalar");
  }
}

}  // namespace
}  // namespace ampd::amp
