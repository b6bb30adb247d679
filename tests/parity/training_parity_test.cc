// Compares the engine's training with PyTorch's, from the same weights, on the same batches and with the same number of
// threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ATen/Parallel.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/gpt.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "precision/policy.h"
#include "tests/host_cpu.h"
#include "tests/parity/oracle.h"
#include "worker/amp/engine.h"

namespace ampd::parity {
namespace {

using amp::OptimizerConfig;
using Tensors = std::map<std::string, at::Tensor>;

// The constants below have the same values as in oracle_training.py.
constexpr uint64_t kSeed = 20;
constexpr double kMaxNorm = 0x1p-2;
constexpr int64_t kMicroBatches = 4;
constexpr double kEmaDecay = 0.9375;

constexpr double kFp32Tolerance = 1e-4;
// After 30 to 50 steps, the loss must be at most this fraction of the first loss.
constexpr double kPartAfterFewSteps = 0.9;

// Describes a training run. The fields are the arguments of oracle_training.py.
struct Recipe {
  std::string model;
  std::string preset = "fp32";
  std::string optimizer = "adamw";
  int64_t num_steps = 50;
  std::string feature = "none";
};

v1::Device Cpu() {
  v1::Device device;
  device.set_kind(v1::Device::CPU);
  device.add_instruction_sets("avx512_bf16");
  return device;
}

graph::Graph Build(const std::string& model) {
  if (model == "gpt") {
    return *models::BuildGpt({.num_layers = 2, .width = 32, .num_heads = 2, .vocabulary = 17, .sequence_length = 16});
  }
  if (model == "resnet") {
    return *models::BuildResnet({.widths = {8, 16}, .blocks = {1, 1}, .in_channels = 1, .image_size = 28});
  }
  return model == "cnn" ? *models::BuildLenet(v1::LenetSpec()) : *models::BuildMlp(v1::MlpSpec());
}

OptimizerConfig ConfigOf(const Recipe& run) {
  const bool is_gpt = run.model == "gpt";
  const double adamw_rate = is_gpt ? 0x1p-11 : run.model == "resnet" ? 0x1.8p-10 : 0x1p-13;
  const bool decays = run.feature == "decay";
  OptimizerConfig config;
  if (run.optimizer == "sgd") {
    config = {.kind = OptimizerConfig::Kind::kSgd,
              .learning_rate = is_gpt ? 0x1p-6 : 0x1p-8,
              .weight_decay = decays ? 0x1p-1 : 0x1p-6,
              .momentum = 0.875};
  } else {
    config = {
        .kind = OptimizerConfig::Kind::kAdamW, .learning_rate = adamw_rate, .weight_decay = decays ? 0x1p4 : 0x1p-6};
  }
  if (run.feature == "ema") {
    config.ema_decay = kEmaDecay;
  }
  return config;
}

// A trained engine, and the results of its steps.
struct Trained {
  std::unique_ptr<amp::Engine> engine;
  std::vector<float> losses;
  std::vector<float> grad_norms;
};

amp::Batch BatchOf(const Tensors& oracle, int64_t step) {
  const int64_t index = step % oracle.at("labels").size(0);
  return {oracle.at("images").select(0, index), oracle.at("labels").select(0, index)};
}

// Trains the run's model with the engine on the oracle's batches.
Trained Train(const Recipe& run, const Tensors& oracle) {
  at::set_num_threads(run.preset == "fp32" ? 1 : 2);
  v1::PrecisionPolicy policy;
  policy.set_preset(run.preset);
  const graph::Graph model = Build(run.model);
  amp::EngineOptions options;
  options.optimizer = ConfigOf(run);
  options.seed = kSeed;
  if (run.feature == "clip") {
    options.clip_grad_norm = kMaxNorm;
  }
  const auto resolved =
      precision::ResolvePolicy(policy, *graph::WithLossHead(model), Cpu(), precision::OptimizerKind::kAdam);
  Trained trained{.engine = amp::Engine::Create(model, *resolved, options).value(), .losses = {}, .grad_norms = {}};
  const int64_t num_parts = run.feature == "accumulation" ? kMicroBatches : 1;
  for (int64_t step = 0; step < run.num_steps; ++step) {
    const amp::Batch batch = BatchOf(oracle, step);
    const int64_t size = batch.labels.size(0) / num_parts;
    std::vector<amp::Batch> parts;
    for (int64_t i = 0; i < num_parts; ++i) {
      parts.push_back({batch.images.narrow(0, i * size, size), batch.labels.narrow(0, i * size, size)});
    }
    const amp::StepResult result = trained.engine->Step(parts);
    trained.losses.push_back(result.loss);
    trained.grad_norms.push_back(result.grad_norm);
  }
  return trained;
}

// Returns the mean loss of the trained model on the first batch, with the averaged weights if there are any.
double EvalLoss(const Trained& trained, const Tensors& oracle) {
  const amp::EvalSums sums = trained.engine->Evaluate(BatchOf(oracle, 0));
  return sums.loss / static_cast<double>(sums.num_samples);
}

// Returns the tensors that PyTorch computes for the run. With the preset "bf16", PyTorch uses CPU autocast.
Tensors OracleOf(const Recipe& run) {
  const std::string preset = run.preset == "fp32" ? "fp32" : "bf16";
  const auto oracle =
      RunOracle("oracle_training", {run.model, preset, run.optimizer, std::to_string(run.num_steps), run.feature});
  EXPECT_TRUE(oracle.ok()) << oracle.status();
  return oracle.value_or(Tensors());
}

// Returns the largest relative difference between numbers of the same step. `wrong` receives a description of the first
// step whose difference exceeds its tolerance.
double LargestDifference(const std::vector<float>& ours, const at::Tensor& theirs,
                         const std::vector<double>& tolerances, std::string& wrong) {
  double worst = 0;
  const auto* expected = theirs.const_data_ptr<float>();
  for (size_t step = 0; step < ours.size(); ++step) {
    const double difference = std::abs(static_cast<double>(ours[step]) - expected[step]) / expected[step];
    if (!(difference <= tolerances[step]) && wrong.empty()) {
      wrong = "step " + std::to_string(step) + ": " + std::to_string(ours[step]) + " against " +
              std::to_string(expected[step]) + ", tolerance " + std::to_string(tolerances[step]);
    }
    worst = std::max(worst, difference);
  }
  return worst;
}

void ExpectClose(const std::string& what, const std::vector<float>& ours, const at::Tensor& theirs,
                 const std::vector<double>& tolerances) {
  ASSERT_EQ(theirs.numel(), static_cast<int64_t>(ours.size()));
  ASSERT_EQ(tolerances.size(), ours.size());
  std::string wrong;
  const double worst = LargestDifference(ours, theirs, tolerances, wrong);
  EXPECT_EQ(wrong, "") << what;
  std::printf("%s: largest relative difference %.2g\n", what.c_str(), worst);
}

void ExpectClose(const std::string& what, const std::vector<float>& ours, const at::Tensor& theirs, double tolerance) {
  ExpectClose(what, ours, theirs, std::vector<double>(ours.size(), tolerance));
}

// Expects that the last loss is at most `part` times the first loss.
void ExpectLearned(const at::Tensor& losses, double part = 0.8) {
  const auto* values = losses.const_data_ptr<float>();
  EXPECT_LT(values[losses.numel() - 1], part * values[0]) << "the oracle must have learned something";
}

// Returns the norm of the difference between our parameters and PyTorch's, relative to the norm of PyTorch's.
double WeightsApart(const Trained& trained, const Tensors& oracle) {
  double difference = 0;
  double norm = 0;
  for (const auto& [name, ours] : trained.engine->ExportState().model) {
    const at::Tensor& theirs = oracle.at("after/" + name);
    difference += ours.sub(theirs).square().sum().item<double>();
    norm += theirs.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

TEST(TrainingParity, Fp32LossesFollowPyTorch) {
  for (const Recipe& run : {Recipe{.model = "cnn"},
                            {.model = "cnn", .optimizer = "sgd"},
                            {.model = "mlp"},
                            {.model = "mlp", .optimizer = "sgd"},
                            {.model = "gpt"}}) {
    const Tensors oracle = OracleOf(run);
    ASSERT_FALSE(oracle.empty());
    ExpectClose(run.model + " " + run.optimizer, Train(run, oracle).losses, oracle.at("losses"), kFp32Tolerance);
    ExpectLearned(oracle.at("losses"));
  }
}

// Returns a relative tolerance: 2%, or twice `own_spread` if that is more. `own_spread` is the relative difference
// between PyTorch's own results with 1 and 2 threads.
double ToleranceBeside(double own_spread) { return std::max(0.02, 2 * own_spread); }

// Returns the relative tolerance for the loss of each step: 2%, or twice the difference between PyTorch's own losses
// with 1 and 2 threads if that is more.
std::vector<double> TolerancesBeside(const Tensors& oracle) {
  const at::Tensor& losses = oracle.at("losses");
  const at::Tensor spreads = oracle.at("losses_one_thread").sub(losses).abs().div(losses);
  std::printf("PyTorch's own difference between 1 and 2 threads: at most %.3g\n", spreads.max().item<double>());
  std::vector<double> tolerances;
  for (int64_t step = 0; step < spreads.numel(); ++step) {
    tolerances.push_back(ToleranceBeside(spreads.const_data_ptr<float>()[step]));
  }
  return tolerances;
}

// Checks that the losses of the run under each preset follow those of PyTorch's bf16 autocast in every step, within 2%,
// or within twice the difference between PyTorch's own losses with 1 and 2 threads if that is more.
void ExpectFollowsAutocast(Recipe run, const std::vector<std::string>& presets, double learned_part = 0.8) {
  run.preset = "bf16";
  const Tensors oracle = OracleOf(run);
  ASSERT_FALSE(oracle.empty());
  const std::vector<double> tolerances = TolerancesBeside(oracle);
  for (const std::string& preset : presets) {
    run.preset = preset;
    ExpectClose(run.model + " " + preset, Train(run, oracle).losses, oracle.at("losses"), tolerances);
  }
  ExpectLearned(oracle.at("losses"), learned_part);
}

TEST(TrainingParity, Bf16LossesOfTheCnnFollowAutocast) {
  if (HostHasAvx512()) {
    ExpectFollowsAutocast({.model = "cnn", .num_steps = 200}, {"bf16", "torch-amp-bf16"});
  } else {
    ExpectFollowsAutocast({.model = "cnn", .num_steps = 30}, {"bf16"}, kPartAfterFewSteps);
  }
}

TEST(TrainingParity, Bf16LossesOfTheMlpFollowAutocast) {
  ExpectFollowsAutocast({.model = "mlp", .num_steps = 100}, {"torch-amp-bf16"});
}

TEST(TrainingParity, Bf16LossesOfTheGptFollowAutocast) {
  ExpectFollowsAutocast({.model = "gpt", .num_steps = 100}, {"torch-amp-bf16"});
}

// Returns how far running statistics are from PyTorch's. For means, which may be near zero, the unit is the standard
// deviation; for variances, it is the variance.
double StatisticsApart(const std::string& name, const at::Tensor& statistics, const Tensors& oracle) {
  const bool is_mean = name.ends_with("running_mean");
  const std::string norm = name.substr(0, name.rfind('.'));
  const at::Tensor& variance = oracle.at("after/" + norm + ".running_var");
  const at::Tensor unit = is_mean ? variance.sqrt() : variance;
  return statistics.sub(oracle.at("after/" + name)).norm().div(unit.norm()).item<double>();
}

TEST(TrainingParity, Bf16LossesAndRunningStatisticsOfTheResnetFollowAutocast) {
  const Recipe run{.model = "resnet", .preset = "torch-amp-bf16", .num_steps = HostHasAvx512() ? 100 : 50};
  const Tensors oracle = OracleOf(run);
  ASSERT_FALSE(oracle.empty());
  const Trained trained = Train(run, oracle);
  ExpectClose("resnet " + run.preset, trained.losses, oracle.at("losses"), TolerancesBeside(oracle));
  ExpectLearned(oracle.at("losses"), HostHasAvx512() ? 0.8 : kPartAfterFewSteps);
  int num_statistics = 0;
  double worst = 0;
  for (const auto& [name, ours] : trained.engine->ExportState().model) {
    if (name.find(".running_") == std::string::npos) {
      continue;
    }
    ++num_statistics;
    const double difference = StatisticsApart(name, ours, oracle);
    const double own_spread = StatisticsApart(name, oracle.at("after_one_thread/" + name), oracle);
    EXPECT_LE(difference, ToleranceBeside(own_spread)) << name;
    worst = std::max(worst, difference);
  }
  EXPECT_EQ(num_statistics, 2 * 6) << "of every batch norm";
  std::printf("resnet: running statistics: largest relative difference %.2g\n", worst);
  const double expected = oracle.at("eval_loss").item<double>();
  EXPECT_NEAR(EvalLoss(trained, oracle), expected, 0.02 * expected) << "of a model that normalises by them";
}

TEST(FeatureParity, ClippingByTheGlobalNormIsTorchs) {
  const Recipe run{.model = "gpt", .optimizer = "sgd", .feature = "clip"};
  const Tensors oracle = OracleOf(run);
  ASSERT_FALSE(oracle.empty());
  EXPECT_GT(oracle.at("grad_norms").min().item<double>(), 1.5 * kMaxNorm) << "every step must be clipped";
  const Trained trained = Train(run, oracle);
  ExpectClose("clip: losses", trained.losses, oracle.at("losses"), kFp32Tolerance);
  ExpectClose("clip: norms before clipping", trained.grad_norms, oracle.at("grad_norms"), kFp32Tolerance);
  EXPECT_LE(WeightsApart(trained, oracle), kFp32Tolerance);
  const Recipe unclipped{.model = run.model, .optimizer = run.optimizer};
  EXPECT_GT(WeightsApart(Train(unclipped, oracle), oracle), 10 * kFp32Tolerance) << "clipping must matter";
}

TEST(FeatureParity, AccumulationOverMicroBatchesIsTorchs) {
  for (const std::string model : {"cnn", "gpt"}) {
    const Recipe run{.model = model, .feature = "accumulation"};
    const Tensors oracle = OracleOf(run);
    ASSERT_FALSE(oracle.empty());
    const Trained trained = Train(run, oracle);
    ExpectClose(model + " in micro-batches: losses", trained.losses, oracle.at("losses"), kFp32Tolerance);
    ExpectClose(model + " in micro-batches: norms", trained.grad_norms, oracle.at("grad_norms"), kFp32Tolerance);
    EXPECT_LE(WeightsApart(trained, oracle), kFp32Tolerance);
  }
}

TEST(FeatureParity, AccumulationUnderAutocastIsTorchs) {
  Recipe run{.model = "mlp", .preset = "torch-amp-bf16", .num_steps = 100, .feature = "accumulation"};
  const Tensors oracle = OracleOf(run);
  ASSERT_FALSE(oracle.empty());
  ExpectClose("mlp in micro-batches in bf16", Train(run, oracle).losses, oracle.at("losses"), 0.02);
}

TEST(FeatureParity, WeightDecayIsTorchs) {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    const Recipe run{.model = "mlp", .optimizer = optimizer, .feature = "decay"};
    const Tensors oracle = OracleOf(run);
    ASSERT_FALSE(oracle.empty());
    const Trained trained = Train(run, oracle);
    ExpectClose("decay with " + optimizer, trained.losses, oracle.at("losses"), kFp32Tolerance);
    EXPECT_LE(WeightsApart(trained, oracle), kFp32Tolerance);
    const Recipe weak{.model = run.model, .optimizer = optimizer};
    EXPECT_GT(WeightsApart(Train(weak, oracle), oracle), 0.02) << "decay must matter";
  }
}

TEST(FeatureParity, EvaluationOnTheAverageOfTheWeightsIsTorchs) {
  for (const std::string model : {"mlp", "gpt"}) {
    const Recipe run{.model = model, .feature = "ema"};
    const Tensors oracle = OracleOf(run);
    ASSERT_FALSE(oracle.empty());
    const double expected = oracle.at("eval_loss").item<double>();
    EXPECT_NEAR(EvalLoss(Train(run, oracle), oracle), expected, kFp32Tolerance * expected) << model;
    const double of_weights = EvalLoss(Train({.model = model}, oracle), oracle);
    EXPECT_GT(std::abs(of_weights - expected), 10 * kFp32Tolerance * expected) << "the average must matter";
  }
}

}  // namespace
}  // namespace ampd::parity
