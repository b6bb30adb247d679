// Checkpoint segments run again in the backward pass. Tests that results, gradients and state are the same as without
// segments.

#include "graph/segments.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/builder/builder.h"
#include "worker/executor/executor.h"
#include "worker/executor/initialize.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;

// The results of one forward and backward pass, by name.
struct Outcome {
  TensorMap tensors;
  at::Tensor next_random;
};

// Runs the graph forward and backward once. `inputs` are in the graph's order; those that require gradients receive
// them.
Outcome RunOnce(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(5);
  TensorMap state = InitialState(graph, 3);
  for (const graph::State& parameter : graph.parameters()) {
    state.at(parameter.name).requires_grad_(true);
  }
  auto program = Executor::Create(graph, OpRegistry());
  EXPECT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE((*program)->Bind(state).ok());
  std::vector<at::Tensor> given;
  for (const at::Tensor& input : inputs) {
    given.push_back(input.detach().clone().requires_grad_(input.requires_grad()));
  }
  Outcome outcome;
  const at::Tensor y = (*program)->Run(given)[0];
  outcome.tensors["y"] = y.detach();
  y.mul(y).sum().backward();
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].grad().defined()) {
      outcome.tensors["input " + std::to_string(i)] = given[i].grad();
    }
  }
  for (const auto& [name, tensor] : state) {
    outcome.tensors[name] = tensor.detach();
    if (tensor.grad().defined()) {
      outcome.tensors["grad " + name] = tensor.grad();
    }
  }
  outcome.next_random = at::rand({4});
  return outcome;
}

Graph Segmented(const Graph& graph, const std::vector<std::string>& globs) {
  auto result = graph::WithCheckpointSegments(graph, globs);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

void ExpectSameBits(const Outcome& segmented, const Outcome& plain) {
  ASSERT_EQ(segmented.tensors.size(), plain.tensors.size());
  for (const auto& [name, tensor] : plain.tensors) {
    ASSERT_TRUE(segmented.tensors.contains(name)) << name;
    EXPECT_TRUE(at::equal(segmented.tensors.at(name), tensor)) << name;
  }
  EXPECT_TRUE(at::equal(segmented.next_random, plain.next_random)) << "other random numbers were drawn";
}

Graph NormsAndDropout() {
  GraphBuilder b("norms");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 4, 4}});
  for (const char* path : {"a", "b"}) {
    const std::string module = path;
    x = b.Conv2d(module + ".conv", x, {.out_channels = 2, .kernel_size = 3, .padding = 1});
    x = b.Dropout(module + ".drop", b.Gelu(module + ".act", b.BatchNorm2d(module + ".bn", x)), 0.3);
  }
  b.Output("y", b.Linear("head", b.Flatten("", x), 3));
  return std::move(b).Build().value();
}

class Segments : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(Segments, GradientsMasksAndRunningStatisticsAreThoseOfOneRun) {
  const Graph graph = NormsAndDropout();
  const std::vector<at::Tensor> inputs = {at::rand({3, 2, 4, 4})};
  const Outcome plain = RunOnce(graph, inputs);
  EXPECT_FALSE(at::equal(plain.tensors.at("a.bn.running_mean"), at::zeros({2}))) << "the norm counts nothing";
  ExpectSameBits(RunOnce(Segmented(graph, {"a", "b"}), inputs), plain);
  ExpectSameBits(RunOnce(Segmented(graph, {"?"}), inputs), plain);
}

TEST_F(Segments, AnInputIsGivenItsGradientOnlyWhenItNeedsOne) {
  const Graph graph = NormsAndDropout();
  const at::Tensor images = at::rand({3, 2, 4, 4});
  const Outcome without = RunOnce(Segmented(graph, {"a"}), {images});
  EXPECT_FALSE(without.tensors.contains("input 0"));
  EXPECT_TRUE(without.tensors.contains("grad a.conv.weight"));
  const at::Tensor trained = images.clone().requires_grad_(true);
  const Outcome with = RunOnce(Segmented(graph, {"a"}), {trained});
  EXPECT_TRUE(with.tensors.contains("input 0"));
  ExpectSameBits(with, RunOnce(graph, {trained}));
}

// The attention's dropout is the only op of the segment that draws random numbers.
TEST_F(Segments, AttentionThatDropsWeights_DropsTheSameOnesAgain) {
  GraphBuilder b("attention");
  const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 2, 5, 4}});
  const ValueId query = b.Linear("a.query", x, 4);
  b.Output("y", b.Attention("a.attention", query, b.Linear("a.key", x, 4), b.Linear("a.value", x, 4), false));
  Graph graph = std::move(b).Build().value();
  std::vector<graph::Node> nodes = graph.nodes();
  nodes.back().Set("dropout_p", 0.4);
  graph.SetNodes(std::move(nodes));
  const std::vector<at::Tensor> inputs = {at::rand({3, 2, 5, 4})};
  const Outcome plain = RunOnce(graph, inputs);
  ExpectSameBits(RunOnce(Segmented(graph, {"a"}), inputs), plain);
}

// A graph whose segment "m" changes a value from outside: y = linear(x) is computed before the segment, which then
// computes y += linear(x) in place and continues with y.
Graph InPlace() {
  Graph graph("in_place");
  const graph::TensorType type = {Dtype::kFloat32, {Dim::Batch(), 4}};
  const auto call = [&](const std::string& op, std::vector<graph::Argument> arguments, const std::string& path) {
    return graph.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = path}, "v", type);
  };
  const ValueId x = graph.AddInput("x", type);
  const ValueId weight = graph.AddParameter("weight", {Dtype::kFloat32, {4, 4}}, graph::Initializer::Normal(1));
  const ValueId y = call("aten.linear.default", {{"input", x}, {"weight", weight}}, "stem");
  const ValueId z = call("aten.linear.default", {{"input", x}, {"weight", weight}}, "m");
  const ValueId sum = call("aten.add_.Tensor", {{"self", y}, {"other", z}}, "m");
  const ValueId positive = call("aten.relu_.default", {{"self", sum}}, "m");
  graph.AddOutput("y", call("aten.gelu.default", {{"self", positive}}, "m"));
  return graph;
}

TEST_F(Segments, AnInputThatTheSegmentWritesIsAsItWasInTheSecondRun) {
  const std::vector<at::Tensor> inputs = {at::rand({3, 4}).sub(0.5)};
  ExpectSameBits(RunOnce(Segmented(InPlace(), {"m"}), inputs), RunOnce(InPlace(), inputs));
}

TEST_F(Segments, AnInputThatIsChangedBeforeTheBackwardPassIsAnError) {
  const Graph graph = Segmented(NormsAndDropout(), {"b", "head"});
  TensorMap state = InitialState(graph, 3);
  for (const graph::State& parameter : graph.parameters()) {
    state.at(parameter.name).requires_grad_(true);
  }
  auto program = Executor::Create(graph, OpRegistry()).value();
  ASSERT_TRUE(program->Bind(state).ok());
  const at::Tensor loss = program->Run({at::rand({3, 2, 4, 4})})[0].sum();
  {
    const at::NoGradGuard no_grad;
    state.at("b.conv.weight").add_(1);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_F(Segments, WithoutGradModeNothingIsRecorded) {
  const Graph graph = Segmented(NormsAndDropout(), {"?"});
  TensorMap state = InitialState(graph, 3);
  state.at("a.conv.weight").requires_grad_(true);
  auto program = Executor::Create(graph, OpRegistry()).value();
  ASSERT_TRUE(program->Bind(state).ok());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(program->Run({at::rand({3, 2, 4, 4})})[0].requires_grad());
}

}  // namespace
}  // namespace ampd::executor
