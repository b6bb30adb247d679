// The textbook case for a loss scale, with exact fp16 numerics: a model whose gradients are too small for fp16 trains
// only with a loss scale.
#include <gtest/gtest.h>

#include <cstdio>

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

constexpr int kFeatures = 32;
constexpr int kUnderflowClasses = 4;

constexpr int kBatchSize = 8192;

// The factor on the logits; maximal-update parametrisation and temperatures also have such a factor. A sample's share
// of the loss's gradient is at most 1 / kBatchSize. With this factor, the share becomes 2.4e-8, which is less than
// fp16's smallest number, 6e-8.
constexpr double kMultiplier = 2e-4;

graph::Graph Classifier() {
  GraphBuilder b("classifier");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), kFeatures}});
  const ValueId head = b.Linear("head", x, kUnderflowClasses);
  b.Output("logits", head);
  graph::Graph graph = *std::move(b).Build();
  const ValueId logits = graph.AddNode({.op = "aten.mul.Tensor",
                                        .arguments = {{"self", head}, {"other", kMultiplier}},
                                        .outputs = {},
                                        .module_path = ""},
                                       "logits", graph.type(head));
  graph.SetOutputs({{"logits", logits}});
  return graph;
}

// A batch in which the samples of class c have a bright quarter c of their features.
Batch MakeBatch(uint64_t seed) {
  SeededRandom random(seed);
  Batch batch{at::empty({kBatchSize, kFeatures}, at::kFloat), at::empty({kBatchSize}, at::kLong)};
  for (int64_t i = 0; i < kBatchSize; ++i) {
    const auto label = static_cast<int64_t>(random.Next() % kUnderflowClasses);
    batch.labels.data_ptr<int64_t>()[i] = label;
    for (int64_t k = 0; k < kFeatures; ++k) {
      const double noise = static_cast<double>(random.Next() >> 11) * 0x1p-53;
      const double bright = k * kUnderflowClasses / kFeatures == label ? 0.5 : 0;
      batch.images.data_ptr<float>()[i * kFeatures + k] = static_cast<float>(noise + bright);
    }
  }
  return batch;
}

// Trains for 60 steps and returns the accuracy on new samples.
double Train(const v1::PrecisionPolicy& policy) {
  EngineOptions options;
  // The logits are multiplied by kMultiplier, 2e-4, so the weights must become large. In each step AdamW moves a weight
  // by about the learning rate, however small its gradient is, so the weights become large only at a large rate.
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 50, .epsilon = 1e-15};
  options.seed = 3;
  const auto engine = CpuEngine(Classifier(), policy, options);
  const Batch batch = MakeBatch(1);
  for (int step = 0; step < 60; ++step) {
    engine->Step({batch});
  }
  const EvalSums sums = engine->Evaluate(MakeBatch(2));
  return static_cast<double>(sums.num_correct) / static_cast<double>(sums.num_samples);
}

TEST(Underflow, WithoutAScaleTheModelStaysAtChanceAndWithOneItLearns) {
  const v1::PrecisionPolicy fp32 = PresetNamed("fp32");
  const v1::PrecisionPolicy scaled = PresetNamed("fp16");
  v1::PrecisionPolicy unscaled = scaled;
  unscaled.mutable_loss_scale()->mutable_off();
  const double of_fp32 = Train(fp32);
  const double with = Train(scaled);
  const double without = Train(unscaled);
  std::printf("accuracy: fp32 %.3f, fp16 with a loss scale %.3f, without %.3f\n", of_fp32, with, without);
  EXPECT_GT(of_fp32, 0.95);
  EXPECT_GT(with, 0.95);
  EXPECT_LT(without, 0.4) << "four classes: chance is 0.25";
}

}  // namespace
}  // namespace ampd::amp
