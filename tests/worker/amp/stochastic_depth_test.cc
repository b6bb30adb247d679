// Checks which branches an engine step drops for which samples (stochastic depth). The weights after the step show
// this. Each test program links in its own definition of the model (two_branches.h).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "ATen/ops/eye.h"
#include "ATen/ops/stack.h"
#include "tests/worker/amp/cpu_engine.h"
#include "tests/worker/amp/two_branches.h"
#include "worker/amp/engine.h"

namespace ampd::amp {
namespace {

constexpr int64_t kMicroBatches = 2;
constexpr int64_t kSamples = 64;  // Samples in a micro-batch.
constexpr int64_t kAll = kMicroBatches * kSamples;
constexpr int64_t kSteps = 300;
constexpr std::array<double, 2> kProbabilities = {0.3, 0.1};  // Drop probability of each branch.

// Makes an engine that shows by which factor a step multiplies each branch of each sample: after one step, weight i of
// a branch equals the branch's factor for sample i. To achieve this, sample i is 1 at index i and 0 elsewhere, and the
// weights begin at 0. The loss is the squared error to the samples themselves, and the learning rate cancels the
// constant factor in the gradient.
std::unique_ptr<Engine> MakeEngine(uint64_t seed) {
  static const auto* const model = new TwoBranches(TwoBranchesOf(kAll, kProbabilities));
  EngineOptions options;
  options.optimizer = {.kind = OptimizerConfig::Kind::kSgd, .learning_rate = kSamples * kAll};
  options.seed = seed;
  options.eval_model = model->eval;
  return CpuEngine(model->train, PresetNamed("fp32"), options);
}

// Returns the factors by which steps multiplied each branch of each sample: (steps, branches, samples).
at::Tensor FactorsOf(uint64_t seed, uint64_t first_stream = 0) {
  const auto engine = MakeEngine(seed);
  const EngineState start = engine->ExportState();
  std::vector<Batch> micro_batches;
  for (const at::Tensor& samples : at::eye(kAll).split(kSamples)) {
    micro_batches.push_back({samples, samples});
  }
  std::vector<at::Tensor> factors;
  for (int64_t step = 0; step < kSteps; ++step) {
    engine->Step(micro_batches, first_stream + static_cast<uint64_t>(step));
    const EngineState state = engine->ExportState();
    factors.push_back(at::stack({state.model.at("first.weight"), state.model.at("second.weight")}));
    EXPECT_TRUE(engine->ImportState(start).ok());
  }
  return at::stack(factors);
}

// Returns for each branch of each sample whether it was dropped: (steps, branches, samples).
at::Tensor DropsOf(uint64_t seed, uint64_t first_stream = 0) { return FactorsOf(seed, first_stream).eq(0); }

// Checks that the share of true values agrees with the probability.
void ExpectShare(const at::Tensor& truths, double probability, const std::string& what) {
  const auto count = static_cast<double>(truths.numel());
  const double share = truths.sum().item<double>() / count;
  EXPECT_NEAR(share, probability, 5 * std::sqrt(probability * (1 - probability) / count)) << what;
}

// Checks that two draws with the probabilities `of_one` and `of_other` are independent.
void ExpectIndependent(const at::Tensor& one, double of_one, const at::Tensor& other, double of_other,
                       const std::string& what) {
  ExpectShare(one.logical_and(other), of_one * of_other, what);
}

class StochasticDepth : public testing::TestWithParam<int> {
 protected:
  int64_t branch() const { return GetParam(); }
  double probability() const { return kProbabilities[GetParam()]; }
  at::Tensor Drops(uint64_t seed, uint64_t first_stream = 0) const {
    return DropsOf(seed, first_stream).select(1, branch());  // (steps, samples)
  }
};
INSTANTIATE_TEST_SUITE_P(Branches, StochasticDepth, testing::Values(0, 1));

TEST_P(StochasticDepth, LeavesOutSamplesAsOftenAsItSays_AndScalesTheOthers) {
  const at::Tensor factors = FactorsOf(/*seed=*/5).select(1, branch());
  const at::Tensor kept = factors.ne(0);
  const double error = factors.sub(kept.to(at::kFloat), 1 / (1 - probability())).abs().max().item<double>();
  EXPECT_LE(error, 1e-6) << "a sample is left out, or multiplied by the inverse of the share that stays";
  ExpectShare(kept.logical_not(), probability(), "of all samples and steps");
  for (int64_t sample = 0; sample < kAll; ++sample) {
    ExpectShare(kept.select(1, sample).logical_not(), probability(), "of sample " + std::to_string(sample));
  }
}

TEST_P(StochasticDepth, DrawsForEachStepSampleAndMicroBatchByItself) {
  const at::Tensor drops = Drops(5);
  const double p = probability();
  ExpectIndependent(drops.narrow(0, 0, kSteps - 1), p, drops.narrow(0, 1, kSteps - 1), p, "a step and the next");
  ExpectIndependent(drops.narrow(1, 0, kAll - 1), p, drops.narrow(1, 1, kAll - 1), p, "a sample and the next");
  ExpectIndependent(drops.narrow(1, 0, kSamples), p, drops.narrow(1, kSamples, kSamples), p, "two micro-batches");
}

TEST_P(StochasticDepth, IsTheSeedsAndTheStreams) {
  const at::Tensor drops = Drops(5);
  EXPECT_TRUE(drops.equal(Drops(5)));
  EXPECT_TRUE(drops.narrow(0, 10, kSteps - 10).equal(Drops(5, /*first_stream=*/10).narrow(0, 0, kSteps - 10)))
      << "a step draws by its place in the data alone, whatever was drawn before";
  ExpectIndependent(drops, probability(), Drops(6), probability(), "two seeds");
}

TEST(StochasticDepthBranches, DrawForThemselves) {
  const at::Tensor drops = DropsOf(5);
  ExpectIndependent(drops.select(1, 0), kProbabilities[0], drops.select(1, 1), kProbabilities[1], "two branches");
}

}  // namespace
}  // namespace ampd::amp
