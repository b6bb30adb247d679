// The engine against PyTorch from the wheel: GradScaler's trace, and training of the MNIST CNN from the same weights on
// the same batches with the same number of threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ATen/Parallel.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/models.h"
#include "precision/policy.h"
#include "tests/parity/oracle.h"
#include "worker/amp/engine.h"
#include "worker/amp/loss_scaler.h"

namespace ampd::parity {
namespace {

using amp::OptimizerConfig;

// As in oracle_training.py.
constexpr uint64_t kSeed = 20;

TEST(ScalerParity, EqualsTorchsGradScalerStepByStep) {
  struct Case {
    int64_t num_steps;
    int interval;
    int one_in;
  };
  for (const Case& c : {Case{100'000, 2000, 900}, {12'000, 7, 20}, {12'000, 50, 200}, {12'000, 3, 3}}) {
    const auto oracle = RunOracle(
        "oracle_scaler.py", {"1", std::to_string(c.num_steps), std::to_string(c.interval), std::to_string(c.one_in)});
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    precision::LossScaleConfig config;
    config.kind = precision::LossScaleConfig::Kind::kDynamic;
    config.initial = 65536;
    config.growth_interval = c.interval;
    amp::LossScaler scaler(config);
    const auto* flags = oracle->at("flags").const_data_ptr<int64_t>();
    const auto* scales = oracle->at("scales").const_data_ptr<float>();
    ASSERT_EQ(oracle->at("scales").numel(), c.num_steps);
    for (int64_t step = 0; step < c.num_steps; ++step) {
      scaler.Update(flags[step] != 0);
      ASSERT_EQ(scaler.scale(), scales[step]) << "interval " << c.interval << " step " << step;
    }
  }
}

v1::Device Cpu() {
  v1::Device device;
  device.set_kind(v1::Device::CPU);
  device.add_instruction_sets("avx512_bf16");
  return device;
}

OptimizerConfig ConfigOf(const std::string& name) {
  if (name == "sgd") {
    return {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = 0x1p-8, .weight_decay = 0x1p-6, .momentum = 0.875};
  }
  return {.kind = OptimizerConfig::Kind::kAdamW, .learning_rate = 0x1p-13, .weight_decay = 0x1p-6};
}

// Our losses on the oracle's batches.
std::vector<float> Train(const std::string& preset, const std::string& optimizer, int64_t steps,
                         const std::map<std::string, at::Tensor>& oracle) {
  at::set_num_threads(2);
  v1::ModelSpec spec;
  spec.mutable_lenet();
  v1::PrecisionPolicy policy;
  policy.set_preset(preset);
  const graph::Graph model = *models::BuildModel(spec);
  amp::EngineOptions options;
  options.optimizer = ConfigOf(optimizer);
  options.seed = kSeed;
  const auto resolved =
      precision::ResolvePolicy(policy, *graph::WithLossHead(model), Cpu(), precision::OptimizerKind::kAdam);
  const auto engine = amp::Engine::Create(model, *resolved, options).value();
  const int64_t num_batches = oracle.at("labels").size(0);
  std::vector<float> losses;
  for (int64_t step = 0; step < steps; ++step) {
    const amp::Batch batch{oracle.at("images").select(0, step % num_batches),
                           oracle.at("labels").select(0, step % num_batches)};
    losses.push_back(engine->Step({batch}).loss);
  }
  return losses;
}

TEST(TrainingParity, Fp32LossesFollowPyTorch) {
  constexpr int64_t kSteps = 50;
  constexpr double kTolerance = 1e-4;
  for (const std::string optimizer : {"adamw", "sgd"}) {
    const auto oracle = RunOracle("oracle_training.py", {"fp32", optimizer, std::to_string(kSteps)});
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    const std::vector<float> losses = Train("fp32", optimizer, kSteps, *oracle);
    const auto* expected = oracle->at("losses").const_data_ptr<float>();
    double worst = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const double difference = std::abs(losses[step] - expected[step]) / expected[step];
      worst = std::max(worst, difference);
      EXPECT_LE(difference, kTolerance) << optimizer << " step " << step << ": " << losses[step] << " against "
                                        << expected[step];
    }
    EXPECT_LT(expected[kSteps - 1], 0.8 * expected[0]) << "the oracle must have learned something";
    std::printf("%s: largest relative difference %.2g\n", optimizer.c_str(), worst);
  }
}

TEST(TrainingParity, Bf16LossesFollowAutocast) {
  constexpr int64_t kSteps = 200;
  const auto oracle = RunOracle("oracle_training.py", {"bf16", "adamw", std::to_string(kSteps)});
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  const auto* expected = oracle->at("losses").const_data_ptr<float>();
  const auto* one_thread = oracle->at("losses_one_thread").const_data_ptr<float>();
  // What PyTorch differs by from itself, at most, over the run.
  double spread = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    spread = std::max(spread, std::abs(static_cast<double>(expected[step]) - one_thread[step]) / expected[step]);
  }
  const double tolerance = std::max(0.02, 2 * spread);
  for (const char* preset : {"bf16", "torch-amp-bf16"}) {
    const std::vector<float> losses = Train(preset, "adamw", kSteps, *oracle);
    double worst = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const double difference = std::abs(losses[step] - expected[step]) / expected[step];
      worst = std::max(worst, difference);
      EXPECT_LE(difference, tolerance) << preset << " step " << step << ": " << losses[step] << " against "
                                       << expected[step];
    }
    std::printf("%s: largest relative difference %.3g, PyTorch's own between 1 and 2 threads %.3g\n", preset, worst,
                spread);
  }
}

}  // namespace
}  // namespace ampd::parity
