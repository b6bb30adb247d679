// Compares ampd's optimizers with those of torch.optim on the same gradients. Each optimizer has a parameter group with
// its own learning rate, and keeps averaged weights.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/parity/oracle.h"
#include "worker/amp/optimizer.h"

namespace ampd::parity {
namespace {

using amp::OptimizerConfig;
using Kind = OptimizerConfig::Kind;

constexpr int64_t kSteps = 100;
constexpr double kTolerance = 1e-6;  // For values of about 1.

// Returns the optimizer configuration that has this name in oracle_optimizer.py.
OptimizerConfig ConfigOf(const std::string& name) {
  OptimizerConfig config;
  config.kind = name == "adamw" ? Kind::kAdamW : name == "adam" ? Kind::kAdam : Kind::kSgd;
  config.learning_rate = 0x1p-7;
  config.weight_decay = 0x1p-4;
  config.momentum = name == "sgd" || name == "nesterov" ? 0.875 : 0;
  config.dampening = name == "sgd" ? 0.25 : 0;
  config.nesterov = name == "nesterov";
  config.groups = {{.match = "bias", .learning_rate = 0x1p-6, .weight_decay = 0}};
  config.ema_decay = 0.9375;
  return config;
}

double LargestDifference(const at::Tensor& expected, const at::Tensor& actual) {
  return expected.sub(actual).abs().max().item<double>();
}

TEST(OptimizerParity, HundredStepsEndWhereTorchsEnd) {
  const auto kernels = amp::StepKernels::Make({});
  for (const std::string name : {"adamw", "adam", "sgd", "nesterov", "plain"}) {
    const auto oracle = RunOracle("oracle_optimizer", {name, std::to_string(kSteps)});
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    std::vector<amp::Parameter> parameters;
    for (const std::string key : {"weight", "bias"}) {
      parameters.push_back(
          amp::MakeParameter(key, oracle->at(key).clone(), at::kFloat, precision::Masters::kNone, *kernels));
    }
    amp::Optimizer optimizer(ConfigOf(name), parameters, *kernels);
    kernels::PhaseBlock phase;
    phase.rule = optimizer.rule();
    for (int64_t step = 0; step < kSteps; ++step) {
      kernels::FinalizeDecision(/*step=*/{}, phase);
      optimizer.Step({oracle->at("weight_gradients").select(0, step), oracle->at("bias_gradients").select(0, step)},
                     &phase.decision);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& key = parameters[i].name;
      const double apart = LargestDifference(oracle->at(key + "_after"), parameters[i].master);
      const double averages_apart = LargestDifference(oracle->at(key + "_average"), optimizer.averages()[i]);
      EXPECT_LE(apart, kTolerance) << name << " " << key;
      EXPECT_LE(averages_apart, kTolerance) << name << " " << key;
      EXPECT_GT(LargestDifference(oracle->at(key), parameters[i].master), 0.1) << "nothing moved";
      std::printf("%s %s: %.2g, average %.2g\n", name.c_str(), key.c_str(), apart, averages_apart);
    }
  }
}

}  // namespace
}  // namespace ampd::parity
