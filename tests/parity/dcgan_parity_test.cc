// Compares ampd's DCGAN networks with those of PyTorch's DCGAN tutorial: names, initial weights, losses, gradients and
// training.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/core/grad_mode.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/dcgan.h"
#include "precision/policy.h"
#include "tests/parity/oracle.h"
#include "worker/amp/engine.h"
#include "worker/amp/step/format.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"
#include "worker/train/plan/imported_model.h"

namespace ampd::parity {
namespace {

using executor::TensorMap;

constexpr double kForwardTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;
constexpr double kTrainingTolerance = 1e-4;
constexpr const char* kPlayers[] = {"discriminator", "generator"};

// Returns the same spec as in oracle_dcgan.py.
v1::DcganSpec SpecOf(int image_size) {
  v1::DcganSpec spec;
  spec.set_image_size(image_size);
  spec.set_channels(2);
  spec.set_latent_size(6);
  spec.set_generator_features(8);
  spec.set_discriminator_features(8);
  return spec;
}

graph::Graph Dcgan(int image_size) { return models::BuildDcgan(SpecOf(image_size)).value(); }

using Kind = amp::OptimizerConfig::Kind;

double RelativeError(const at::Tensor& ours, const at::Tensor& theirs) {
  return ours.sub(theirs).norm().item<double>() / theirs.norm().item<double>();
}

// Returns the name of the archive that Python exported for an image size.
std::string ArchiveOf(int image_size) { return absl::StrCat("dcgan-", image_size, ".pt2"); }

// Returns the tensors that oracle_dcgan.py computed for an image size. They are computed once per size.
const absl::StatusOr<TensorMap>& OracleOf(int image_size) {
  static auto* const known = new std::map<int, absl::StatusOr<TensorMap>>();
  const auto it = known->find(image_size);
  if (it != known->end()) {
    return it->second;
  }
  const std::string archive = testing::TempDir() + ArchiveOf(image_size);
  auto oracle = RunOracle("oracle_dcgan", {absl::StrCat(image_size), archive});
  return known->emplace(image_size, std::move(oracle)).first->second;
}

class DcganParity : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    const auto& oracle = OracleOf(GetParam());
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    oracle_ = *oracle;
  }

  // Returns the oracle's tensors whose names start with `prefix`. The names in the result are without the prefix.
  TensorMap Named(const std::string& prefix) const {
    TensorMap found;
    for (const auto& [name, tensor] : oracle_) {
      if (absl::StartsWith(name, prefix)) {
        found[name.substr(prefix.size())] = tensor;
      }
    }
    return found;
  }

  amp::Batch BatchOf(int64_t step) const {
    return {oracle_.at("images")[step].contiguous(), {}, {{"noise", oracle_.at("noise")[step].contiguous()}}};
  }

  amp::PhaseOptions PhaseOf(const std::string& player, Kind kind) const {
    amp::PhaseOptions phase{.name = player, .loss = player + "_loss", .parameters = player + ".*"};
    phase.optimizer = {.kind = kind,
                       .learning_rate = oracle_.at("learning_rate").item<double>(),
                       .weight_decay = kind == Kind::kAdamW ? 0x1p-6 : 0,
                       .beta1 = 0.5,
                       .epsilon = oracle_.at("epsilon").item<double>()};
    return phase;
  }

  // Returns an engine for the model, with the weights from which the oracle's training starts.
  std::unique_ptr<amp::Engine> EngineOf(const graph::Graph& model, Kind kind = Kind::kAdam,
                                        const std::string& start = "start/") const {
    v1::Device cpu;
    cpu.set_kind(v1::Device::CPU);
    v1::PrecisionPolicy policy;
    policy.set_preset("fp32");
    const auto resolved = precision::ResolvePolicy(policy, model, cpu, precision::OptimizerKind::kAdam);
    amp::EngineOptions options;
    options.phases = {PhaseOf("discriminator", kind), PhaseOf("generator", kind)};
    options.generator = models::BuildDcganGenerator(SpecOf(GetParam())).value();
    auto engine = amp::Engine::Create(model, *resolved, options).value();
    amp::EngineState state = engine->ExportState();
    state.model = Named(start);
    EXPECT_TRUE(engine->ImportState(state).ok());
    return engine;
  }

  // Checks that the losses and gradients of each player (discriminator and generator) equal PyTorch's.
  void ExpectGradients(const graph::Graph& model, const std::string& start, const std::string& gradients) const;
  // Checks that twenty steps follow PyTorch's: the losses, every tensor after the steps, and the images that the
  // trained generator makes.
  void ExpectTrainingFollows(const graph::Graph& model, Kind kind, const std::string& start,
                             const std::string& name) const;

  const graph::Graph model_ = Dcgan(GetParam());
  TensorMap oracle_;
};

TEST_P(DcganParity, FirstWeightsAreTheTutorialsAndDrawnAlike) {
  const TensorMap ours = executor::InitialState(model_, /*seed=*/3);
  const TensorMap theirs = Named("state/");
  EXPECT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    ASSERT_TRUE(ours.contains(name)) << name;
    const at::Tensor& own = ours.at(name);
    ASSERT_EQ(own.sizes(), tensor.sizes()) << name;
    const double deviation = tensor.numel() > 1 ? tensor.std().item<double>() : 0;
    if (deviation == 0) {  // The counts of batches, for example, have no deviation.
      EXPECT_TRUE(own.equal(tensor)) << name;
      continue;
    }
    const double error = deviation / std::sqrt(tensor.numel());
    EXPECT_NEAR(own.mean().item<double>(), tensor.mean().item<double>(), 6 * error) << name;
    if (tensor.numel() > 200) {
      EXPECT_NEAR(own.std().item<double>() / deviation, 1, 6 / std::sqrt(tensor.numel())) << name;
    }
  }
}

void DcganParity::ExpectGradients(const graph::Graph& model, const std::string& start,
                                  const std::string& gradients) const {
  for (const std::string player : kPlayers) {
    TensorMap state = Named(start);
    for (auto& [name, tensor] : state) {
      tensor = amp::InTrainingLayout(tensor.clone());
    }
    for (const graph::State& parameter : model.parameters()) {
      state.at(parameter.name).requires_grad_(absl::StartsWith(parameter.name, player + "."));
    }
    const graph::Graph program = graph::LossProgram(model, player + "_loss").value();
    const auto executor = executor::Executor::Create(program, executor::OpRegistry()).value();
    ASSERT_TRUE(executor->Bind(state).ok());
    const at::Tensor value = executor->Run(amp::InputsOf(program, BatchOf(0), at::Device(at::kCPU)))[0];
    EXPECT_LE(RelativeError(value, oracle_.at(absl::StrCat(gradients, player, "_loss"))), kForwardTolerance) << player;
    value.backward();
    int num_compared = 0;
    for (const auto& [name, gradient] : Named(gradients + player + ".")) {
      EXPECT_LE(RelativeError(state.at(absl::StrCat(player, ".", name)).grad(), gradient), kGradientTolerance) << name;
      ++num_compared;
    }
    EXPECT_GT(num_compared, 3) << player;
  }
}

TEST_P(DcganParity, LossesAndGradientsAgree) { ExpectGradients(model_, "start/", "grad/"); }

TEST_P(DcganParity, LossesAndGradientsAgreeInEvaluationMode) {
  ExpectGradients(graph::EvalProgram(model_), "adamw/after/", "eval/grad/");
}

void DcganParity::ExpectTrainingFollows(const graph::Graph& model, Kind kind, const std::string& start,
                                        const std::string& name_of_run) const {
  const auto engine = EngineOf(model, kind, start);
  for (int64_t step = 0; step < oracle_.at("noise").size(0); ++step) {
    for (const amp::PhaseResult& phase : engine->Step({BatchOf(step)}).phases) {
      const double expected = oracle_.at(name_of_run + phase.phase + "_loss")[step].item<double>();
      EXPECT_NEAR(phase.loss, expected, kTrainingTolerance * expected) << phase.phase << " step " << step;
    }
  }
  std::set<std::string> parameters;
  for (const graph::State& parameter : model.parameters()) {
    parameters.insert(parameter.name);
  }
  const bool is_eval = start != "start/";
  const TensorMap before = Named(start);
  const TensorMap trained = engine->ExportState().model;
  const TensorMap theirs = Named(name_of_run + "after/");
  EXPECT_EQ(trained.size(), theirs.size());
  for (const auto& [name, tensor] : trained) {
    ASSERT_TRUE(theirs.contains(name)) << name;
    if (is_eval && !parameters.contains(name)) {
      EXPECT_TRUE(tensor.equal(before.at(name))) << name << " changed";
    } else if (absl::EndsWith(name, "num_batches_tracked")) {
      EXPECT_TRUE(tensor.equal(theirs.at(name))) << name << ": " << tensor.item<int64_t>();
    } else {
      EXPECT_LE(RelativeError(tensor, theirs.at(name)), kTrainingTolerance) << name;
      EXPECT_GT(RelativeError(tensor, before.at(name)), kTrainingTolerance) << name << " was not trained";
    }
  }
  const at::Tensor images = engine->Generate(BatchOf(0).others.at("noise"));
  EXPECT_LE(RelativeError(images, oracle_.at(name_of_run + "eval/images")), kTrainingTolerance);
}

TEST_P(DcganParity, TrainingFollowsTheTutorials) { ExpectTrainingFollows(model_, Kind::kAdam, "start/", "adam/"); }

TEST_P(DcganParity, TrainingWithAdamWFollowsPyTorchs) {
  ExpectTrainingFollows(model_, Kind::kAdamW, "start/", "adamw/");
}

// The test trains a module that is in evaluation mode. The norms of such a module are frozen: they use their running
// statistics and do not change them.
TEST_P(DcganParity, TrainingInEvaluationModeFollowsPyTorchs) {
  ExpectTrainingFollows(graph::EvalProgram(model_), Kind::kAdamW, "adamw/after/", "eval/");
}

// The engine and PyTorch evaluate the same weights, which PyTorch trained.
TEST_P(DcganParity, EvaluationAgrees) {
  const std::string trained = "adamw/";
  const auto run = [&](const graph::Graph& program) {
    const auto executor = executor::Executor::Create(program, executor::OpRegistry()).value();
    TensorMap state = Named(trained + "after/");
    for (auto& [name, tensor] : state) {
      tensor = amp::InTrainingLayout(tensor.clone());
    }
    EXPECT_TRUE(executor->Bind(state).ok());
    const at::NoGradGuard no_grad;
    return executor->Run(amp::InputsOf(program, BatchOf(0), at::Device(at::kCPU)))[0];
  };
  const graph::Graph generator = graph::EvalProgram(models::BuildDcganGenerator(SpecOf(GetParam())).value());
  EXPECT_LE(RelativeError(run(generator), oracle_.at(trained + "eval/images")), kForwardTolerance);
  const graph::Graph both = graph::EvalProgram(graph::LossProgram(model_, "generator_loss").value());
  EXPECT_LE(RelativeError(run(both), oracle_.at(trained + "eval/generator_loss")), kForwardTolerance);
}

// The two networks are exported from Python as one module, which makes its fake images once for both losses. The
// exported GAN must train to the same bits as the GAN of ampd's own model library.
TEST_P(DcganParity, ExportedItTrainsToTheSameBits) {
  v1::ExportedModelSpec spec;
  spec.set_head(v1::ExportedModelSpec::GAN);
  const auto exported = train::OpenImportedModel(spec, {testing::TempDir(), ArchiveOf(GetParam()), "model"});
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto ours = EngineOf(model_);
  const auto theirs = EngineOf(exported->train);
  for (int64_t step = 0; step < oracle_.at("noise").size(0); ++step) {
    const amp::StepResult expected = ours->Step({BatchOf(step)});
    const amp::StepResult given = theirs->Step({BatchOf(step)});
    ASSERT_EQ(given.phases.size(), expected.phases.size());
    for (size_t i = 0; i < given.phases.size(); ++i) {
      EXPECT_EQ(given.phases[i].phase, expected.phases[i].phase);
      EXPECT_EQ(given.phases[i].loss, expected.phases[i].loss) << given.phases[i].phase << " step " << step;
    }
  }
  const TensorMap expected = ours->ExportState().model;
  const TensorMap given = theirs->ExportState().model;
  ASSERT_EQ(given.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(given.at(name).equal(tensor)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DcganParity, testing::Values(28, 32, 64));

// Under every policy, the networks train without numeric faults, and the discriminator learns.
TEST(Dcgan, TrainsUnderEveryPolicy) {
  const graph::Graph model = Dcgan(28);
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  for (const char* preset : {"fp32", "bf16", "fp16", "torch-amp-bf16"}) {
    v1::PrecisionPolicy policy;
    policy.set_preset(preset);
    const auto resolved = precision::ResolvePolicy(policy, model, cpu, precision::OptimizerKind::kAdam);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    amp::EngineOptions options;
    // The generator's rate is so low that its images hardly change, so the discriminator can memorize them.
    for (const auto& [player, rate] : {std::pair("discriminator", 2e-3), {"generator", 1e-6}}) {
      options.phases.push_back(
          {.name = player, .loss = absl::StrCat(player, "_loss"), .parameters = absl::StrCat(player, ".*")});
      options.phases.back().optimizer = {
          .kind = amp::OptimizerConfig::Kind::kAdam, .learning_rate = rate, .beta1 = 0.5};
    }
    const auto engine = amp::Engine::Create(model, *resolved, options).value();
    const auto& oracle = OracleOf(28);
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    float first = 0;
    float last = 0;
    int num_skipped = 0;
    for (int step = 0; step < 20; ++step) {
      const amp::StepResult result =
          engine->Step({{oracle->at("images")[0].contiguous(), {}, {{"noise", oracle->at("noise")[0].contiguous()}}}});
      num_skipped += result.skipped ? 1 : 0;
      (step == 0 ? first : last) = result.phases[0].loss;
    }
    EXPECT_LE(num_skipped, preset == std::string("fp16") ? 5 : 0) << preset << ": while it looks for its loss scale";
    EXPECT_LT(last, 0.7 * first) << preset << ": the discriminator learns to tell the same images apart";
  }
}

}  // namespace
}  // namespace ampd::parity
