// The zoo's models against those of transformers and torchvision: names and shapes of what a checkpoint holds, and of
// GPT-2 first weights, logits, gradients and training.

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ampd/v1/precision.pb.h"
#include "ampd/v1/worker.pb.h"
#include "graph/passes.h"
#include "models/gpt2.h"
#include "models/resnet.h"
#include "precision/policy.h"
#include "tests/parity/oracle.h"
#include "worker/amp/engine.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"

namespace ampd::parity {
namespace {

using executor::TensorMap;

// As in oracle_gpt2.py.
constexpr int64_t kLength = 10;

constexpr double kForwardTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;
constexpr double kTrainingTolerance = 1e-4;

graph::Graph SmallGpt2() {
  v1::Gpt2Spec spec;
  spec.set_n_layer(3);
  spec.set_n_embd(48);
  spec.set_n_head(4);
  spec.set_n_positions(16);
  spec.set_vocab_size(61);
  spec.set_dropout(0);
  return models::BuildGpt2(spec, kLength).value();
}

double RelativeError(const at::Tensor& ours, const at::Tensor& theirs) {
  return ours.sub(theirs).norm().item<double>() / theirs.norm().item<double>();
}

// Without the prefix.
TensorMap Named(const std::map<std::string, at::Tensor>& oracle, const std::string& prefix) {
  TensorMap found;
  for (const auto& [name, tensor] : oracle) {
    if (absl::StartsWith(name, prefix)) {
      found[name.substr(prefix.size())] = tensor;
    }
  }
  return found;
}

template <typename Map>
std::set<std::string> KeysOf(const Map& map) {
  std::set<std::string> keys;
  for (const auto& [key, value] : map) {
    keys.insert(key);
  }
  return keys;
}

class Gpt2Parity : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    static const auto* const oracle = new auto(RunOracle("oracle_gpt2.py", {}));
    ASSERT_TRUE(oracle->ok()) << oracle->status();
    oracle_ = **oracle;
  }

  amp::Batch BatchOf(int64_t step) const {
    const at::Tensor tokens = oracle_.at("tokens")[step];  // (B, T + 1)
    return {tokens.narrow(1, 0, kLength).contiguous(), tokens.narrow(1, 1, kLength).contiguous()};
  }

  const graph::Graph model_ = SmallGpt2();
  std::map<std::string, at::Tensor> oracle_;
};

TEST_F(Gpt2Parity, TheTensorsAreThoseOfACheckpoint) {
  const TensorMap theirs = Named(oracle_, "state/");
  const TensorMap ours = executor::InitialState(model_, /*seed=*/3);
  EXPECT_EQ(KeysOf(ours), KeysOf(theirs));
  for (const auto& [name, tensor] : theirs) {
    EXPECT_EQ(ours.at(name).sizes(), tensor.sizes()) << name;
  }
}

TEST_F(Gpt2Parity, FirstWeightsAreDrawnAlike) {
  const TensorMap ours = executor::InitialState(model_, /*seed=*/3);
  for (const auto& [name, tensor] : Named(oracle_, "state/")) {
    const double deviation = tensor.numel() > 1 ? tensor.std().item<double>() : 0;
    const at::Tensor& own = ours.at(name);
    if (deviation == 0) {
      EXPECT_TRUE(own.equal(tensor)) << name;
      continue;
    }
    // Over 4 standard errors of the smallest, 768 numbers.
    EXPECT_NEAR(own.std().item<double>() / deviation, 1, 0.15) << name;
    EXPECT_NEAR(own.mean().item<double>() / deviation, 0, 0.15) << name;
  }
}

TEST_F(Gpt2Parity, LogitsAndGradientsAgree) {
  TensorMap state = Named(oracle_, "start/");
  for (auto& [name, tensor] : state) {
    tensor = tensor.clone().requires_grad_(true);
  }
  const amp::Batch batch = BatchOf(0);
  const auto forward = executor::Executor::Create(model_, executor::OpRegistry()).value();
  ASSERT_TRUE(forward->Bind(state).ok());
  {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = forward->Run({batch.images})[0];
    EXPECT_EQ(logits.sizes(), oracle_.at("logits").sizes());
    EXPECT_LE(RelativeError(logits, oracle_.at("logits")), kForwardTolerance);
  }
  const auto program = executor::Executor::Create(graph::WithLossHead(model_).value(), executor::OpRegistry()).value();
  ASSERT_TRUE(program->Bind(state).ok());
  program->Run({batch.images, batch.labels})[0].backward();
  for (const auto& [name, tensor] : state) {
    EXPECT_LE(RelativeError(tensor.grad(), oracle_.at("grad/" + name)), kGradientTolerance) << name;
  }
}

TEST_F(Gpt2Parity, TrainingFollows) {
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  v1::PrecisionPolicy policy;
  policy.set_preset("fp32");
  const auto resolved =
      precision::ResolvePolicy(policy, graph::WithLossHead(model_).value(), cpu, precision::OptimizerKind::kAdam);
  amp::EngineOptions options;
  options.optimizer = {
      .kind = amp::OptimizerConfig::Kind::kAdamW, .learning_rate = 0x1p-9, .weight_decay = 0x1p-6, .epsilon = 0x1p-17};
  const auto engine = amp::Engine::Create(model_, *resolved, options).value();
  amp::EngineState state = engine->ExportState();
  state.model = Named(oracle_, "start/");
  ASSERT_TRUE(engine->ImportState(state).ok());
  const at::Tensor losses = oracle_.at("losses");
  for (int64_t step = 0; step < losses.size(0); ++step) {
    const double expected = losses[step].item<double>();
    EXPECT_NEAR(engine->Step({BatchOf(step)}).loss, expected, kTrainingTolerance * expected) << "step " << step;
  }
  for (const auto& [name, tensor] : engine->ExportState().model) {
    EXPECT_LE(RelativeError(tensor, oracle_.at("after/" + name)), kTrainingTolerance) << name;
    EXPECT_GT(RelativeError(tensor, oracle_.at("start/" + name)), kTrainingTolerance) << name << " was not trained";
  }
}

// "num_batches_tracked" is only counted: torchvision's modules load a file without it, as the oracle tries.
TEST(ResnetParity, TheTensorsAreTorchvisionsButForCountsOfBatches) {
  const auto oracle = RunOracle("oracle_resnet.py", {});
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  for (const int depth : {18, 34, 50}) {
    v1::ResnetSpec spec;
    spec.set_depth(depth);
    const TensorMap ours = executor::InitialState(models::BuildResnet(spec).value(), /*seed=*/3);
    std::map<std::string, std::vector<int64_t>> theirs;
    for (const auto& [name, shape] : Named(*oracle, absl::StrCat("resnet", depth, "/"))) {
      if (!absl::EndsWith(name, "num_batches_tracked")) {
        theirs[name] = {shape.data_ptr<int64_t>(), shape.data_ptr<int64_t>() + shape.numel()};
      }
    }
    EXPECT_EQ(KeysOf(ours), KeysOf(theirs)) << depth;
    for (const auto& [name, tensor] : ours) {
      EXPECT_EQ(tensor.sizes().vec(), theirs[name]) << name;
    }
  }
}

}  // namespace
}  // namespace ampd::parity
