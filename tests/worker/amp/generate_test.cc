// Tests of Engine::Generate, which runs a part of the model between training steps.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "ATen/ops/cross_entropy_loss.h"
#include "ATen/ops/randn.h"
#include "ATen/ops/zeros.h"
#include "models/dcgan.h"
#include "models/samples.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/small_problem.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

constexpr int64_t kReductionSum = 2;

EngineOptions Lenet(std::optional<double> ema_decay) {
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 1e-2, .weight_decay = 0.01};
  options.optimizer.ema_decay = ema_decay;
  options.seed = 3;
  options.generator = SmallLenet({4, 8});
  return options;
}

struct Case {
  const char* preset;
  std::optional<double> ema_decay;
};

class Generated : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Presets, Generated,
                         testing::Values(Case{"fp32", {}}, Case{"bf16", {}}, Case{"fp16", {}}, Case{"bf16", 0.9}),
                         [](const auto& info) {
                           return info.param.preset + std::string(info.param.ema_decay.has_value() ? "Averaged" : "");
                         });

// The generated outputs are the logits that an evaluation computes under the same policy and on the same weights.
TEST_P(Generated, IsWhatAnEvaluationComputes) {
  auto engine = CpuEngine(SmallLenet({4, 8}), PresetNamed(GetParam().preset), Lenet(GetParam().ema_decay));
  for (uint64_t step = 0; step < 20; ++step) {
    engine->Step({MakeBatch(step, 32)});
  }
  const Batch batch = MakeBatch(1000, 64);
  const at::Tensor logits = engine->Generate(batch.images);
  ASSERT_EQ(logits.scalar_type(), at::kFloat);
  EXPECT_FALSE(logits.requires_grad());
  const EvalSums sums = engine->Evaluate(batch);
  EXPECT_EQ(logits.argmax(1).eq(batch.labels).sum().item<int64_t>(), sums.num_correct);
  EXPECT_NEAR(at::cross_entropy_loss(logits, batch.labels, {}, kReductionSum).item<double>(), sums.loss,
              1e-4 * sums.loss);
}

TEST_P(Generated, ChangesNothingOfTheTraining) {
  const auto trained = [](bool generates) {
    auto engine = CpuEngine(SmallLenet({4, 8}), PresetNamed(GetParam().preset), Lenet(GetParam().ema_decay));
    for (uint64_t step = 0; step < 10; ++step) {
      if (generates) {
        engine->Generate(MakeBatch(2000 + step, 7).images);
      }
      engine->Step({MakeBatch(step, 32)});
    }
    return DigestOf(*engine);
  };
  EXPECT_EQ(trained(true), trained(false));
}

// The generator's norms use running statistics, so a picture does not depend on the rest of the batch.
TEST(Generator, OfAGan_MakesEveryPictureForItself) {
  v1::JobSpec spec;
  v1::DcganSpec& dcgan = *spec.mutable_model()->mutable_dcgan();
  dcgan.set_latent_size(6);
  dcgan.set_generator_features(4);
  dcgan.set_discriminator_features(4);
  EngineOptions options;
  for (const char* network : {"discriminator", "generator"}) {
    PhaseOptions& phase = options.phases.emplace_back();
    phase.name = network;
    phase.loss = phase.name + "_loss";
    phase.parameters = phase.name + ".*";
    phase.optimizer = {.kind = OptimizerConfig::Kind::kAdam, .learning_rate = 2e-3};
  }
  options.generator = models::BuildGenerator(spec).value();
  const graph::Graph model = models::BuildDcgan(dcgan).value();
  auto engine = Engine::Create(model, Resolved(PresetNamed("fp32"), model), options).value();
  const at::Tensor labels = at::zeros({8}, at::kLong);
  for (int step = 0; step < 5; ++step) {
    engine->Step({{.images = at::randn({8, 1, 28, 28}), .labels = labels, .others = {{"noise", at::randn({8, 6})}}}});
  }
  const at::Tensor noise = at::randn({4, 6});
  const at::Tensor pictures = engine->Generate(noise);
  ASSERT_EQ(pictures.sizes(), (std::vector<int64_t>{4, 1, 28, 28}));
  EXPECT_LE(pictures.abs().max().item<float>(), 1);
  EXPECT_GT(pictures.select(0, 0).sub(pictures.select(0, 1)).abs().max().item<float>(), 0);
  for (int64_t i = 0; i < 4; ++i) {
    const at::Tensor alone = engine->Generate(noise.narrow(0, i, 1));
    EXPECT_LE(alone.sub(pictures.narrow(0, i, 1)).abs().max().item<float>(), 1e-6) << i;
  }
}

}  // namespace
}  // namespace ampd::amp
