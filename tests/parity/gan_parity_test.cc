// Compares a GAN with two optimizers in ampd and in PyTorch. With the same weights and data, the losses must agree. The
// loss scale and the skipped steps must agree with torch.amp.GradScaler, also when one of the two optimizers overflows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "ATen/Parallel.h"
#include "ATen/ops/equal.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "models/gan.h"
#include "precision/policy.h"
#include "tests/parity/oracle.h"
#include "worker/amp/engine.h"

namespace ampd::parity {
namespace {

using amp::OptimizerConfig;

// The same seed as in oracle_gan.py.
constexpr uint64_t kSeed = 20;
constexpr double kTolerance = 1e-4;
constexpr char kCount[] = "discriminator.3.num_batches_tracked";

graph::Graph Gan() {
  return models::BuildGan({.noise_features = 8, .generator_width = 32, .discriminator_width = 8, .image_size = 8})
      .value();
}

v1::PrecisionPolicy PolicyFor(const std::string& rule) {
  v1::PrecisionPolicy policy;
  policy.set_preset("fp32");
  if (rule != "plain") {
    policy.mutable_loss_scale()->set_optimizer_skip(rule == "all_together" ? v1::LossScale::ALL_TOGETHER
                                                                           : v1::LossScale::EACH_ALONE);
    policy.mutable_loss_scale()->mutable_dynamic()->set_initial(0x1p40);
    policy.mutable_loss_scale()->mutable_dynamic()->set_growth_interval(3);
  }
  return policy;
}

std::unique_ptr<amp::Engine> MakeEngine(const std::string& rule) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  const auto resolved = precision::ResolvePolicy(PolicyFor(rule), Gan(), cpu, precision::OptimizerKind::kAdam);
  amp::PhaseOptions discriminator{
      .name = "discriminator", .loss = "discriminator_loss", .parameters = "discriminator.*"};
  discriminator.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0x1p-7, .momentum = 0.5};
  amp::PhaseOptions generator{.name = "generator", .loss = "generator_loss", .parameters = "generator.*"};
  generator.optimizer = {.kind = OptimizerConfig::Kind::kAdam, .learning_rate = 0x1p-11, .beta1 = 0.5};
  amp::EngineOptions options;
  options.seed = kSeed;
  options.phases = {discriminator, generator};
  return amp::Engine::Create(Gan(), *resolved, options).value();
}

// Sets the generator's weights for the first feature of the noise to 0, as the oracle does. Then checks that all
// initial weights equal PyTorch's for the same seed.
void TakeFirstWeights(const std::map<std::string, at::Tensor>& oracle, amp::Engine& engine) {
  amp::EngineState state = engine.ExportState();
  state.model.at("generator.0.weight").select(1, 0).zero_();
  size_t num_compared = 0;
  for (const auto& [name, tensor] : state.model) {
    const auto theirs = oracle.find("state/" + name);
    ASSERT_NE(theirs, oracle.end()) << name;
    EXPECT_TRUE(at::equal(tensor, theirs->second)) << name;
    ++num_compared;
  }
  EXPECT_EQ(num_compared, 14u);
  ASSERT_TRUE(engine.ImportState(state).ok());
}

void ExpectClose(float ours, float theirs, const std::string& where, double* worst) {
  ASSERT_EQ(std::isnan(ours), std::isnan(theirs)) << where;
  if (!std::isnan(theirs)) {
    const double difference = std::abs(static_cast<double>(ours) - theirs) / std::abs(theirs);
    *worst = std::max(*worst, difference);
    EXPECT_LE(difference, kTolerance) << where << ": " << ours << " against " << theirs;
  }
}

// The numbers of steps in which the update of only the discriminator, of only the generator, or of both was skipped.
struct Skips {
  int discriminator = 0;
  int generator = 0;
  int both = 0;
};

void Follow(const std::string& rule, int64_t steps, Skips* skips) {
  at::set_num_threads(1);
  const auto oracle = RunOracle("oracle_gan", {rule, std::to_string(steps)});
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  const auto engine = MakeEngine(rule);
  TakeFirstWeights(*oracle, *engine);
  double worst = 0;
  for (int64_t step = 0; step < steps; ++step) {
    amp::Batch batch;
    batch.images = oracle->at("images")[step];
    batch.others["noise"] = oracle->at("noise")[step];
    const amp::StepResult result = engine->Step({batch});
    EXPECT_EQ(result.loss_scale, oracle->at("scales")[step].item<float>()) << rule << " step " << step;
    for (const amp::PhaseResult& phase : result.phases) {
      const std::string where = rule + " " + phase.phase + " step " + std::to_string(step);
      ExpectClose(phase.loss, oracle->at(phase.phase + "_loss")[step].item<float>(), where, &worst);
      EXPECT_EQ(phase.skipped ? 0 : 1, oracle->at(phase.phase + "_steps")[step].item<int64_t>()) << where;
    }
    const bool discriminator = result.phases[0].skipped;
    const bool generator = result.phases[1].skipped;
    skips->discriminator += discriminator && !generator ? 1 : 0;
    skips->generator += generator && !discriminator ? 1 : 0;
    skips->both += generator && discriminator ? 1 : 0;
  }
  if (rule == "plain") {
    const at::Tensor losses = oracle->at("discriminator_loss");
    EXPECT_LT(losses[steps - 1].item<float>(), 0.8 * losses[0].item<float>()) << "the oracle must have learned";
  }
  // The discriminator's norm counts its batches in skipped steps, too. Each step runs the norm three times.
  const at::Tensor count = engine->ExportState().model.at(kCount);
  EXPECT_TRUE(at::equal(count, oracle->at(std::string("after/") + kCount))) << rule;
  EXPECT_EQ(count.item<int64_t>(), 3 * steps);
  std::printf("%s: largest relative difference of a loss %.2g\n", rule.c_str(), worst);
}

TEST(GanParity, LossesOfFiftyStepsFollowPyTorch) {
  Skips skips;
  Follow("plain", 50, &skips);
  EXPECT_EQ(skips.discriminator + skips.generator + skips.both, 0);
}

TEST(GanParity, EachAloneIsTorchsGradScalerWithTwoOptimizers) {
  Skips skips;
  Follow("each_alone", 100, &skips);
  EXPECT_GT(skips.discriminator, 3) << "the faults must have fired";
  EXPECT_GT(skips.generator, 3);
}

TEST(GanParity, AllTogetherSkipsBothOnTheOverflowOfOne) {
  Skips skips;
  Follow("all_together", 100, &skips);
  EXPECT_EQ(skips.discriminator + skips.generator, 0);
  EXPECT_GT(skips.both, 10) << "the faults must have fired";
}

}  // namespace
}  // namespace ampd::parity
