// Tests that an adaptive pool computes the same on a GPU, where the precision pass replaces it by an average pool. Both
// forms run on this machine's CPU.
#include <ATen/ops/allclose.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "precision/pass.h"
#include "precision/policy.h"
#include "tests/precision/devices.h"
#include "worker/executor/executor.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;

struct Case {
  int64_t height, width;
  std::vector<int64_t> output;
};

graph::Graph Pool(const Case& one) {
  graph::Graph graph("pool");
  const graph::ValueId x = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 3, one.height, one.width}});
  graph::Node node{.op = "aten.adaptive_avg_pool2d.default",
                   .arguments = {{"self", x}, {"output_size", one.output}},
                   .outputs = {},
                   .module_path = "pool"};
  graph.AddOutput(
      "y", graph.AddNode(std::move(node), "y", {Dtype::kFloat32, {Dim::Batch(), 3, one.output[0], one.output[1]}}));
  return graph;
}

graph::Graph For(const v1::Device& device, const graph::Graph& model) {
  const auto policy =
      precision::ResolvePolicy(precision::PresetNamed("fp32"), model, device, precision::OptimizerKind::kAdam);
  return precision::ApplyPrecision(model, policy.value()).value();
}

struct Computed {
  std::string op;
  at::Tensor result, gradient;
};

Computed RunOf(const graph::Graph& program, const at::Tensor& x) {
  auto executor = Executor::Create(program, OpRegistry()).value();
  EXPECT_TRUE(executor->Bind({}).ok());
  const at::Tensor leaf = x.clone().requires_grad_(true);
  const at::Tensor result = executor->Run({leaf})[0];
  result.mul(result).sum().backward();
  return {program.nodes()[0].op, result.detach(), leaf.grad()};
}

TEST(Pools, AreTheSameOnAGpu) {
  for (const Case& one : {Case{7, 7, {7, 7}}, Case{8, 9, {2, 3}}, Case{8, 6, {1, 2}}}) {
    SCOPED_TRACE(absl::StrCat(one.height, " x ", one.width));
    const at::Tensor x = at::rand({2, 3, one.height, one.width});
    const Computed on_cpu = RunOf(For(precision::Cpu(), Pool(one)), x);
    const Computed on_gpu = RunOf(For(precision::Gpu(9, 0), Pool(one)), x);
    EXPECT_EQ(on_cpu.op, "aten.adaptive_avg_pool2d.default");
    EXPECT_EQ(on_gpu.op, "aten.avg_pool2d.default");
    EXPECT_EQ(on_gpu.result.sizes(), on_cpu.result.sizes());
    EXPECT_TRUE(at::allclose(on_gpu.result, on_cpu.result, 1e-6, 1e-6));
    EXPECT_TRUE(at::allclose(on_gpu.gradient, on_cpu.gradient, 1e-6, 1e-6));
  }
}

TEST(Pools, WithWindowsOfOtherSizesStayAdaptive) {
  EXPECT_EQ(For(precision::Gpu(9, 0), Pool({13, 13, {6, 6}})).nodes()[0].op, "aten.adaptive_avg_pool2d.default");
}

}  // namespace
}  // namespace ampd::executor
