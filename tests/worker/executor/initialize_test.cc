#include "worker/executor/initialize.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "graph/builder/builder.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::GraphBuilder;
using graph::Initializer;
using graph::ValueId;

Graph Model() {
  GraphBuilder b("model");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 4, 8, 8}});
  x = b.BatchNorm2d("bn", b.Conv2d("conv", x, {.out_channels = 64, .kernel_size = 5}));
  b.Output("logits", b.Linear("fc", b.Flatten("", x), 16));
  Graph graph = std::move(b).Build().value();
  graph.AddParameter("normal", {Dtype::kFloat32, {10000}}, Initializer::Normal(0.02));
  return graph;
}

TEST(InitialState, HoldsEveryParameterBufferAndBatchCounterOnce) {
  const TensorMap state = InitialState(Model(), 0);
  EXPECT_EQ(state.size(), 10u);
  EXPECT_EQ(state.at("conv.weight").sizes(), at::IntArrayRef({64, 4, 5, 5}));
  EXPECT_EQ(state.at("bn.weight").min().item<float>(), 1);
  EXPECT_EQ(state.at("bn.running_mean").abs().max().item<float>(), 0);
  EXPECT_EQ(state.at("bn.num_batches_tracked").scalar_type(), at::kLong);
  EXPECT_EQ(state.at("bn.num_batches_tracked").item<int64_t>(), 0);
  EXPECT_FALSE(state.at("fc.weight").requires_grad());
}

TEST(InitialState, UniformDrawsFillTheirRange) {
  const at::Tensor weight = InitialState(Model(), 0).at("conv.weight");
  const double bound = 0.1;  // 1 / sqrt(4 * 5 * 5)
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_GE(weight.max().item<double>(), 0.99 * bound);
  EXPECT_LE(weight.min().item<double>(), -0.99 * bound);
  EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.002);
}

TEST(InitialState, NormalDrawsHaveTheirDeviation) {
  const at::Tensor normal = InitialState(Model(), 0).at("normal");
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.001);
  EXPECT_NEAR(normal.std().item<double>(), 0.02, 0.001);
}

TEST(InitialState, ASeedGivesTheSameAndAnotherSeedOthers) {
  const at::Tensor first = InitialState(Model(), 7).at("fc.weight");
  EXPECT_TRUE(at::equal(first, InitialState(Model(), 7).at("fc.weight")));
  EXPECT_FALSE(at::equal(first, InitialState(Model(), 8).at("fc.weight")));
}

TEST(InitialState, LeavesTheGlobalGeneratorAlone) {
  at::Generator global = at::globalContext().defaultGenerator(at::kCPU);
  global.set_current_seed(3);
  const at::Tensor expected = at::rand({4});
  global.set_current_seed(3);
  InitialState(Model(), 7);
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

}  // namespace
}  // namespace ampd::executor
