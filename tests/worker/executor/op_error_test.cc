#include "worker/executor/op_error.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "worker/executor/backward_fault.h"
#include "worker/executor/executor.h"
#include "worker/executor/op_registry.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::Node;
using graph::ValueId;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kWhere[] = "ampd.broken of layer (net.py:3)";

// A function that returns its input, and throws in the backward pass.
struct BrokenFunction : torch::autograd::Function<BrokenFunction> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& input) { return input.clone(); }
  static variable_list backward(AutogradContext*, variable_list) { throw std::runtime_error("no gradient today"); }
};

void BrokenBackward(std::vector<c10::IValue>& stack) { stack = {BrokenFunction::apply(stack[0].toTensor())}; }
void BrokenForward(std::vector<c10::IValue>&) { throw std::runtime_error("no result today"); }
void OutOfMemory(std::vector<c10::IValue>&) { throw std::bad_alloc(); }

Node NodeOf(const char* op, ValueId self, const char* path) {
  return {.op = op, .arguments = {{"self", self}}, .outputs = {}, .module_path = path, .source = "net.py:3"};
}

// Returns a program that computes sum(sigmoid(broken(relu(w)))).
Graph Program(const std::string& segment = "") {
  Graph graph("program");
  const graph::TensorType type = {Dtype::kFloat32, {4}};
  ValueId value = graph.AddParameter("w", type, graph::Initializer::Constant(0));
  graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch()}});
  value = graph.AddNode(NodeOf("aten.relu.default", value, "act"), "relu", type);
  Node broken = NodeOf("ampd.broken", value, "layer");
  broken.segment = segment;
  value = graph.AddNode(std::move(broken), "broken", type);
  value = graph.AddNode(NodeOf("aten.sigmoid.default", value, "act"), "sigmoid", type);
  graph.AddOutput("loss", graph.AddNode(NodeOf("aten.sum.default", value, "sum"), "loss", {Dtype::kFloat32, {}}));
  return graph;
}

std::unique_ptr<Executor> ExecutorOf(const Graph& graph, const BoxedOp& broken) {
  OpRegistry registry;
  registry.Register("ampd.broken", broken);
  std::unique_ptr<Executor> executor = Executor::Create(graph, registry).value();
  EXPECT_TRUE(executor->Bind({{"w", at::rand({4}).requires_grad_(true)}}).ok());
  return executor;
}

TEST(OpError, WhatAnOpThrowsNamesItsNode) {
  const auto executor = ExecutorOf(Program(), BrokenForward);
  try {
    executor->Run({at::ones({2})});
    FAIL() << "nothing was thrown";
  } catch (const OpError& error) {
    EXPECT_EQ(error.what_without_backtrace(), std::string(kWhere) + ": no result today");
  }
}

TEST(OpError, NoOpIsToBlameForMemory) {
  EXPECT_THROW(ExecutorOf(Program(), OutOfMemory)->Run({at::ones({2})}), std::bad_alloc);
  EXPECT_THROW(ExecutorOf(Program(),
                          [](auto&) {
                            throw c10::OutOfMemoryError({"f", "f", 1}, "none");
                          })
                   ->Run({at::ones({2})}),
               c10::OutOfMemoryError);
  EXPECT_THROW(ExecutorOf(Program(),
                          [](auto&) {
                            throw c10::AcceleratorError({"f", "f", 1}, 1, "gone");
                          })
                   ->Run({at::ones({2})}),
               c10::AcceleratorError);
}

TEST(FindBackwardFault, TheOpWhoseBackwardPassThrowsIsNamed) {
  const auto executor = ExecutorOf(Program(), BrokenBackward);
  EXPECT_THROW(executor->Run({at::ones({2})})[0].backward(), std::exception);
  EXPECT_EQ(FindBackwardFault(*executor, {at::ones({2})}), kWhere);
}

TEST(FindBackwardFault, OfACheckpointSegmentTheSegmentIsNamed) {
  EXPECT_EQ(FindBackwardFault(*ExecutorOf(Program("layer"), BrokenBackward), {at::ones({2})}),
            "the checkpoint segment layer");
}

TEST(FindBackwardFault, NothingIsNamedWhereNothingThrows) {
  const auto sound = [](std::vector<c10::IValue>& stack) { stack = {stack[0].toTensor().mul(2)}; };
  EXPECT_EQ(FindBackwardFault(*ExecutorOf(Program(), sound), {at::ones({2})}), "");
}

}  // namespace
}  // namespace ampd::executor
