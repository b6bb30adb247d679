// Compares the loss head of a language model on a GPU, where the linear layer and its loss are one fused op, with the
// loss head on the CPU and with two separate ops. Skipped without a GPU; scripts/gpu-check runs it on one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "ATen/ops/randint.h"
#include "ampd/v1/precision.pb.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "precision/policy.h"
#include "tests/host_gpu.h"
#include "tests/worker/tolerances.h"
#include "tests/worker/train/gpu/gpu.h"
#include "worker/amp/engine.h"

namespace ampd::train {
namespace {

constexpr int kSteps = 10;
constexpr int64_t kVocabulary = 8191;
constexpr int64_t kSequence = 64;

graph::Graph Gpt() {
  return models::BuildGpt(
             {.num_layers = 1, .width = 64, .num_heads = 2, .vocabulary = kVocabulary, .sequence_length = kSequence})
      .value();
}

class GpuTrainingLossHeadTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!HostHasGpu()) {
      GTEST_SKIP() << kNeedsGpu;
    }
    ASSERT_TRUE(Gpu().ok()) << Gpu().status();
    for (int i = 0; i < kSteps; ++i) {
      const at::Tensor tokens = at::randint(0, kVocabulary, {4, kSequence}, at::kLong);
      batches_.push_back({tokens, tokens.mul(3).add(1).remainder(kVocabulary)});
    }
  }

  // Trains on a device and returns the losses. `fuses`: whether the linear layer and its loss are one op.
  std::vector<float> Losses(const std::string& preset, bool gpu, bool fuses) {
    const graph::Graph model = Gpt();
    v1::PrecisionPolicy policy;
    policy.set_preset(preset);
    auto resolved =
        precision::ResolvePolicy(policy, *graph::WithLossHead(model), Described(gpu), precision::OptimizerKind::kAdam);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    resolved->fuses_linear_cross_entropy = fuses;
    amp::EngineOptions options;
    options.optimizer = {.kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-3};
    options.seed = 7;
    options.device = gpu ? *Gpu() : amp::ComputeDevice();
    const auto engine = *amp::Engine::Create(model, *resolved, options);
    std::vector<float> losses;
    for (const amp::Batch& batch : batches_) {
      losses.push_back(engine->Step({batch}).loss);
    }
    EXPECT_EQ(engine->graph_failure(), "");
    return losses;
  }

  static void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected, const char* what) {
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(actual[i] - expected[i]) / expected[i];
      worst = std::isnan(difference) ? 1 : std::max(worst, difference);
    }
    std::printf("%s, %s: losses differ by at most %.2e\n", GetParam(), what, worst);
    EXPECT_LT(worst, ToleranceOf(GetParam()).device) << what;
  }

  std::vector<amp::Batch> batches_;
};

TEST_P(GpuTrainingLossHeadTest, LossesAreTheCpusAndThoseOfTheTwoOpsApart) {
  const std::vector<float> fused = Losses(GetParam(), true, true);
  ExpectClose(fused, Losses(GetParam(), false, false), "the CPU");
  ExpectClose(fused, Losses(GetParam(), true, false), "the two ops apart");
  EXPECT_EQ(fused, Losses(GetParam(), true, true)) << "not deterministic";
}

INSTANTIATE_TEST_SUITE_P(Presets, GpuTrainingLossHeadTest, testing::Values("fp32", "bf16", "fp16"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

}  // namespace
}  // namespace ampd::train
