// Compares the estimated memory of fused layer norms with the measured memory. The CUDA kernels run on CPU tensors,
// with an emulation of CUDA.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ATen/ops/ones_like.h"
#include "graph/builder/builder.h"
#include "graph/cost/memory.h"
#include "precision/fused_norms.h"
#include "tests/worker/kernels/kernels_under_test.h"
#include "worker/amp/ops/layer_norm.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"
#include "worker/train/device/counting_allocator.h"

namespace ampd::train {
namespace {

using graph::Dtype;
using graph::ValueId;

constexpr int64_t kRows = 600;
constexpr int64_t kColumns = 72;

// A normalization layer. Its input is the activation x or, if `y` is set, the sum of the activations x and y.
struct Norm {
  const char* name = "";
  Dtype x = Dtype::kFloat32;
  std::optional<Dtype> y;
  Dtype result = Dtype::kFloat32;
};

constexpr Norm kNorms[] = {{"norm"},
                           {"norm to bf16", Dtype::kFloat32, {}, Dtype::kBFloat16},
                           {"norm of bf16", Dtype::kBFloat16, {}, Dtype::kBFloat16},
                           {"sum", Dtype::kFloat32, Dtype::kFloat32},
                           {"sum with bf16", Dtype::kFloat32, Dtype::kBFloat16, Dtype::kBFloat16}};

ValueId CastTo(graph::Graph& graph, ValueId value, Dtype dtype) {
  const graph::TensorType type = {dtype, graph.type(value).shape};
  return type == graph.type(value) ? value
                                   : graph.AddNode({.op = "aten.to.dtype",
                                                    .arguments = {{"self", value}, {"dtype", dtype}},
                                                    .outputs = {},
                                                    .module_path = {}},
                                                   "cast", type);
}

// Adds an activation: the sum of a parameter with itself. Only the norm keeps this value for its backward pass.
ValueId Activation(graph::Graph& graph, const std::string& name, Dtype dtype) {
  const ValueId parameter = graph.AddParameter(name, {dtype, {kRows, kColumns}}, graph::Initializer::Normal(1));
  return graph.AddNode({.op = "aten.add.Tensor",
                        .arguments = {{"self", parameter}, {"other", parameter}},
                        .outputs = {},
                        .module_path = {}},
                       "activation", graph.type(parameter));
}

graph::Graph ProgramOf(const Norm& norm) {
  graph::Graph graph("one");
  const auto of_norm = [&](const char* name) {
    return graph.AddParameter(name, {Dtype::kFloat32, {kColumns}}, graph::Initializer::Constant(1));
  };
  const ValueId weight = of_norm("weight");
  const ValueId bias = of_norm("bias");
  ValueId x = Activation(graph, "x", norm.x);
  if (norm.y.has_value()) {
    const ValueId y = CastTo(graph, Activation(graph, "y", *norm.y), norm.x);
    x = graph.AddNode(
        {.op = "aten.add.Tensor", .arguments = {{"self", x}, {"other", y}}, .outputs = {}, .module_path = {}}, "sum",
        graph.type(x));
  }
  const ValueId result = graph.AddNode({.op = "aten.layer_norm.default",
                                        .arguments = {{"input", x},
                                                      {"normalized_shape", std::vector<int64_t>{kColumns}},
                                                      {"weight", weight},
                                                      {"bias", bias}},
                                        .outputs = {},
                                        .module_path = {}},
                                       "norm", graph.type(x));
  graph.AddOutput("result", CastTo(graph, result, norm.result));
  return precision::WithFusedNorms(graph);
}

struct Measured {
  int64_t kept = 0;           // Bytes that remain allocated after the forward pass.
  int64_t backward_peak = 0;  // Peak of bytes in the backward pass.
};

Measured Measure(const graph::Graph& graph) {
  executor::TensorMap state = executor::InitialState(graph, 1);
  for (const graph::State& parameter : graph.parameters()) {
    at::Tensor& leaf = state.at(parameter.name);
    leaf = leaf.to(graph.type(parameter.value).dtype == Dtype::kFloat32 ? at::kFloat : at::kBFloat16);
    leaf.requires_grad_(true);
  }
  std::string why;
  executor::OpRegistry registry;
  amp::RegisterLayerNorm(registry, {.cuda_kernels = kernels::KernelsUnderTest(&why)});
  auto program = executor::Executor::Create(graph, registry).value();
  EXPECT_TRUE(program->Bind(state).ok());
  const int64_t before = GetCpuMemory().allocated_bytes;
  std::vector<at::Tensor> results = program->Run({});
  Measured measured;
  measured.kept = GetCpuMemory().allocated_bytes - before;
  const at::Tensor gradient = at::ones_like(results[0]);
  ResetPeakCpuMemory();
  results[0].backward(gradient);
  measured.backward_peak = GetCpuMemory().peak_bytes - before - static_cast<int64_t>(gradient.nbytes());
  return measured;
}

TEST(FusedNormMemory, WhatANormKeepsIsExact) {
  InstallCountingAllocator();
  for (const Norm& norm : kNorms) {
    const graph::Graph program = ProgramOf(norm);
    EXPECT_EQ(graph::EstimateRun(program, 1).after_forward.total(), Measure(program).kept) << norm.name;
  }
}

TEST(FusedNormMemory, ThePeakOfTheBackwardPassIsWithinAHundredth) {
  InstallCountingAllocator();
  for (const Norm& norm : kNorms) {
    const graph::Graph program = ProgramOf(norm);
    const auto measured = static_cast<double>(Measure(program).backward_peak);
    EXPECT_NEAR(static_cast<double>(graph::EstimateRun(program, 1).peak.total()), measured, 0.01 * measured)
        << norm.name;
  }
}

}  // namespace
}  // namespace ampd::train
