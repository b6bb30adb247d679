// Compares the loss scaler with PyTorch's torch.amp.GradScaler.

#include <gtest/gtest.h>

#include <string>

#include "precision/policy.h"
#include "tests/parity/oracle.h"
#include "worker/amp/loss_scaler.h"

namespace ampd::parity {
namespace {

TEST(ScalerParity, EqualsTorchsGradScalerStepByStep) {
  struct Case {
    int64_t num_steps;
    int interval;
    int one_in;
  };
  for (const Case& c : {Case{20'000, 2000, 900}, {4'000, 7, 20}, {4'000, 50, 200}, {4'000, 3, 3}}) {
    const auto oracle = RunOracle(
        "oracle_scaler", {"1", std::to_string(c.num_steps), std::to_string(c.interval), std::to_string(c.one_in)});
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

}  // namespace
}  // namespace ampd::parity
