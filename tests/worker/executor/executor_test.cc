#include "worker/executor/executor.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/builder/builder.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "worker/executor/initialize.h"
#include "worker/executor/op_error.h"

namespace ampd::executor {
namespace {

using graph::Dim;
using graph::Dtype;
using graph::Graph;
using graph::GraphBuilder;
using graph::Node;
using graph::Operand;
using graph::TensorType;
using graph::ValueId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kVector = {Dtype::kFloat32, {Dim::Batch(), 4}};

// A network with a convolution, pooling and a linear layer. It reads B images of 2 x 6 x 6 and has 5 classes.
Graph Cnn() {
  GraphBuilder b("cnn");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 6, 6}});
  x = b.MaxPool2d("pool", b.Relu("relu", b.Conv2d("conv", x, {.out_channels = 3, .kernel_size = 3, .padding = 1})),
                  {.kernel_size = 2});
  b.Output("logits", b.Linear("fc", b.Flatten("", x), 5));
  return graph::WithLossHead(std::move(b).Build().value()).value();
}

TensorMap Trainable(const Graph& graph, uint64_t seed) {
  TensorMap state = InitialState(graph, seed);
  for (const graph::State& parameter : graph.parameters()) {
    state[parameter.name].requires_grad_(true);
  }
  return state;
}

std::unique_ptr<Executor> Bound(const Graph& graph, const TensorMap& state, const OpRegistry& registry = {}) {
  auto executor = Executor::Create(graph, registry);
  EXPECT_TRUE(executor.ok()) << executor.status();
  EXPECT_TRUE((*executor)->Bind(state).ok());
  return *std::move(executor);
}

Node MakeNode(std::string op, std::vector<graph::Argument> arguments) {
  return {.op = std::move(op), .arguments = std::move(arguments), .outputs = {}, .module_path = {}};
}

// Returns the graph x -> node -> output y.
Graph OneNode(Node node) {
  Graph graph("one");
  graph.AddInput("x", kVector);
  graph.AddOutput("y", graph.AddNode(std::move(node), "y", kVector));
  return graph;
}

at::Tensor RunOne(Node node, const at::Tensor& x) { return Bound(OneNode(std::move(node)), {})->Run({x})[0]; }

absl::Status CreateError(Node node) { return Executor::Create(OneNode(std::move(node)), OpRegistry()).status(); }

// Tests ops whose arguments are numbers in place of tensors. The executor must not make tensors from these numbers,
// because such a tensor would be in the CPU's memory, and a GPU would have to wait for it.
TEST(Run, NumbersTakeTheDtypeAndGradientsOfTheTensorsBesideThem) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
    Graph graph("where");
    const ValueId x = graph.AddInput("x", {dtype, {Dim::Batch(), 4}});
    const ValueId mask = graph.AddInput("mask", {Dtype::kBool, {Dim::Batch(), 4}});
    const auto where = [&](const char* name, Operand self, Operand other) {
      graph.AddOutput(
          name, graph.AddNode(MakeNode("aten.where.self",
                                       {{"condition", mask}, {"self", std::move(self)}, {"other", std::move(other)}}),
                              "y", {dtype, {Dim::Batch(), 4}}));
    };
    where("y", x, -2.5);
    where("z", int64_t{3}, x);
    const ValueId filled = graph.AddNode(MakeNode("aten.fill.Tensor", {{"self", x}, {"value", 0.5}}), "filled",
                                         {dtype, {Dim::Batch(), 4}});
    graph.AddOutput("filled", filled);
    const at::Tensor given =
        at::rand({2, 4}).to(dtype == Dtype::kFloat32 ? at::kFloat : at::kBFloat16).requires_grad_(true);
    const at::Tensor chosen = at::rand({2, 4}).gt(0.5);
    const std::vector<at::Tensor> results = Bound(graph, {})->Run({given, chosen});
    EXPECT_EQ(results[0].scalar_type(), given.scalar_type());
    EXPECT_TRUE(at::equal(results[0], given.masked_fill(chosen.logical_not(), -2.5)));
    EXPECT_TRUE(at::equal(results[1], given.masked_fill(chosen, 3)));
    EXPECT_TRUE(at::equal(results[2], at::full_like(given, 0.5)));
    results[0].sum().backward();
    EXPECT_TRUE(at::equal(given.grad(), chosen.to(given.scalar_type())));
  }
}

TEST(Run, TwoNumbersChosenByAMaskAreNumbers) {
  Graph graph("where");
  const ValueId mask = graph.AddInput("mask", {Dtype::kBool, {Dim::Batch(), 4}});
  graph.AddOutput("y", graph.AddNode(MakeNode("aten.where.self", {{"condition", mask}, {"self", 1.0}, {"other", 0.0}}),
                                     "y", {Dtype::kFloat32, {Dim::Batch(), 4}}));
  const at::Tensor chosen = at::rand({2, 4}).gt(0.5);
  EXPECT_TRUE(at::equal(Bound(graph, {})->Run({chosen})[0], chosen.to(at::kFloat)));
}

TEST(Run, LossAndGradientsEqualDirectCallsBitForBit) {
  const Graph graph = Cnn();
  const TensorMap ours = Trainable(graph, 1);
  const TensorMap direct = Trainable(graph, 1);
  const at::Tensor images = at::rand({7, 2, 6, 6});
  const at::Tensor labels = at::randint(0, 5, {7}, at::kLong);

  const at::Tensor loss = Bound(graph, ours)->Run({images, labels})[0];
  loss.backward();
  at::Tensor x = at::conv2d(images, direct.at("conv.weight"), direct.at("conv.bias"), {1, 1}, at::IntArrayRef{1, 1});
  x = at::max_pool2d(x.relu(), {2, 2}, {2, 2}).flatten(1);
  const at::Tensor expected =
      at::cross_entropy_loss(at::linear(x, direct.at("fc.weight"), direct.at("fc.bias")), labels);
  expected.backward();

  EXPECT_TRUE(at::equal(loss, expected));
  for (const auto& [name, parameter] : ours) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_TRUE(at::equal(parameter.grad(), direct.at(name).grad())) << name;
    EXPECT_GT(parameter.grad().abs().sum().item<float>(), 0) << name;
  }
}

TEST(Run, WhatIsWrittenIntoAParameterIsSeenByTheNextRun) {
  const Graph graph = Cnn();
  const TensorMap state = InitialState(graph, 1);
  const auto executor = Bound(graph, state);
  const at::Tensor images = at::rand({2, 2, 6, 6});
  const at::Tensor labels = at::zeros({2}, at::kLong);
  const at::Tensor before = executor->Run({images, labels})[0];
  state.at("fc.bias").fill_(3.0);
  state.at("fc.weight").zero_();
  const at::Tensor after = executor->Run({images, labels})[0];
  EXPECT_FALSE(at::equal(before, after));
  EXPECT_NEAR(after.item<double>(), std::log(5.0), 1e-6);
}

TEST(Run, NothingIsRecordedWithoutGradMode) {
  const Graph graph = Cnn();
  const auto executor = Bound(graph, Trainable(graph, 1));
  const at::NoGradGuard no_grad;
  const at::Tensor loss = executor->Run({at::rand({2, 2, 6, 6}), at::zeros({2}, at::kLong)})[0];
  EXPECT_FALSE(loss.requires_grad());
}

TEST(Run, SamplesOfAnotherShapeAreViewedInTheDeclaredOne) {
  const Graph graph = Cnn();
  const auto executor = Bound(graph, InitialState(graph, 1));
  const at::Tensor images = at::rand({3, 2, 6, 6});
  const at::Tensor labels = at::zeros({3}, at::kLong);
  EXPECT_TRUE(at::equal(executor->Run({images, labels})[0], executor->Run({images.flatten(1), labels})[0]));
}

TEST(Run, InputsOfTheWrongSizeTypeOrNumberThrow) {
  const Graph graph = Cnn();
  const auto executor = Bound(graph, InitialState(graph, 1));
  const at::Tensor images = at::rand({3, 2, 6, 6});
  const at::Tensor labels = at::zeros({3}, at::kLong);
  EXPECT_THROW(executor->Run({at::rand({3, 2, 6, 7}), labels}), c10::Error);
  EXPECT_THROW(executor->Run({images.to(at::kDouble), labels}), c10::Error);
  EXPECT_THROW(executor->Run({images, at::zeros({4}, at::kLong)}), c10::Error);
  EXPECT_THROW(executor->Run({images}), c10::Error);
}

TEST(Run, AThrowingOpLeavesTheExecutorUsable) {
  const Graph graph = Cnn();
  const auto executor = Bound(graph, InitialState(graph, 1));
  const at::Tensor images = at::rand({3, 2, 6, 6});
  try {
    executor->Run({images, at::ones({3}, at::kLong) * 99});
    ADD_FAILURE() << "no model has class 99";
  } catch (const OpError& error) {
    EXPECT_TRUE(error.is_index_error());
    EXPECT_THAT(error.what_without_backtrace(), testing::StartsWith("aten.cross_entropy_loss.default: "));
  }
  EXPECT_EQ(executor->Run({images, at::zeros({3}, at::kLong)}).size(), 1u);
}

TEST(Run, AnOutputThatLaterNodesReadIsReturnedToo) {
  Graph graph("two");
  const ValueId x = graph.AddInput("x", kVector);
  const ValueId low = graph.AddNode(MakeNode("aten.relu.default", {{"self", x}}), "low", kVector);
  const ValueId sum = graph.AddNode(MakeNode("aten.add.Tensor", {{"self", low}, {"other", low}}), "sum", kVector);
  for (const auto& [name, value] : {std::pair("x", x), {"low", low}, {"sum", sum}, {"again", low}}) {
    graph.AddOutput(name, value);
  }
  const at::Tensor input = at::rand({2, 4});
  const auto outputs = Bound(graph, {})->Run({input});
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_TRUE(at::equal(outputs[0], input));
  EXPECT_TRUE(at::equal(outputs[1], input));
  EXPECT_TRUE(at::equal(outputs[2], input.add(input)));
  EXPECT_TRUE(at::equal(outputs[3], input));
}

TEST(Run, ANormWritesItsStatisticsInTrainingOnly) {
  GraphBuilder b("norm");
  b.Output("logits", b.Flatten("", b.BatchNorm2d("bn", b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 3, 3}}))));
  const Graph train = std::move(b).Build().value();
  const TensorMap state = InitialState(train, 0);
  const at::Tensor images = at::rand({4, 2, 3, 3});
  Bound(graph::EvalProgram(train), state)->Run({images});
  EXPECT_EQ(state.at("bn.running_mean").abs().max().item<float>(), 0);
  Bound(train, state)->Run({images});
  const at::Tensor expected = images.mean(at::IntArrayRef{0, 2, 3}).mul(0.1);
  EXPECT_TRUE(at::allclose(state.at("bn.running_mean"), expected));
}

TEST(StochasticDepth, LeavesOutWholeSamplesAsOftenAsItSays) {
  constexpr double kProbability = 0.3;
  constexpr int64_t kSamples = 20000;
  GraphBuilder b("depth");
  const ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 3, 1}});
  b.Output("y", b.StochasticDepth("d", x, kProbability));
  const Graph graph = std::move(b).Build().value();
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(5);
  const at::Tensor images = at::rand({kSamples, 2, 3, 1}).add(0.5);
  const at::Tensor factors = Bound(graph, {})->Run({images})[0].div(images).flatten(1);  // (B, 6)
  const at::Tensor kept = factors.select(1, 0).gt(0.5);
  EXPECT_TRUE(at::allclose(factors, kept.unsqueeze(1).div(1 - kProbability).expand({kSamples, 6})));
  const double share = kept.sum().item<double>() / kSamples;
  EXPECT_NEAR(share, 1 - kProbability, 5 * std::sqrt(kProbability * (1 - kProbability) / kSamples));
  EXPECT_TRUE(at::equal(Bound(graph::EvalProgram(graph), {})->Run({images})[0], images));
}

TEST(EvalHead, SumsTheLossAndCountsWhatIsCorrect) {
  Graph model("identity");
  model.AddOutput("logits", model.AddInput("images", kVector));
  const auto executor = Bound(graph::WithEvalHead(model).value(), {});
  at::Tensor logits = at::zeros({3, 4});
  logits[0][1] = 9;
  logits[1][2] = 9;
  logits[2][3] = 9;
  const at::Tensor labels = at::ones({3}, at::kLong);
  const auto outputs = executor->Run({logits, labels});
  EXPECT_EQ(outputs[1].item<int64_t>(), 1);
  EXPECT_NEAR(outputs[0].item<double>(), 3 * at::cross_entropy_loss(logits, labels).item<double>(), 1e-5);
}

TEST(Constants, ANumberForATensorDoesNotTakePartInTypePromotion) {
  const at::Tensor x = at::ones({}, at::kBFloat16);
  Graph graph = OneNode(MakeNode("aten.mul.Tensor", {{"self", ValueId{0}}, {"other", 2.5}}));
  graph.SetType({0}, {Dtype::kBFloat16, {}});
  const at::Tensor y = Bound(graph, {})->Run({x})[0];
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.item<float>(), 2.5);
}

TEST(Constants, AnIntegerWidensToWhatTheSchemaTakes) {
  const at::Tensor x = at::rand({2, 4});
  EXPECT_TRUE(at::equal(RunOne(MakeNode("aten.mul.Tensor", {{"self", ValueId{0}}, {"other", int64_t{3}}}), x), x * 3));
  EXPECT_TRUE(
      at::equal(RunOne(MakeNode("aten.add.Tensor", {{"self", ValueId{0}}, {"other", ValueId{0}}, {"alpha", 0.5}}), x),
                x.add(x, 0.5)));
  const at::Tensor images = at::rand({2, 1, 4, 4});
  Graph pool = OneNode(MakeNode("aten.max_pool2d.default", {{"self", ValueId{0}}, {"kernel_size", int64_t{2}}}));
  pool.SetType({0}, {Dtype::kFloat32, {Dim::Batch(), 1, 4, 4}});
  EXPECT_TRUE(at::equal(Bound(pool, {})->Run({images})[0], at::max_pool2d(images, {2, 2})));
}

TEST(Constants, DtypesAndStringsReachTheOp) {
  const at::Tensor x = at::rand({2, 4});
  const at::Tensor y = RunOne(MakeNode("aten.to.dtype", {{"self", ValueId{0}}, {"dtype", Dtype::kFloat16}}), x);
  EXPECT_EQ(y.scalar_type(), at::kHalf);
  EXPECT_TRUE(at::equal(
      RunOne(MakeNode("aten.gelu.default", {{"self", ValueId{0}}, {"approximate", std::string("tanh")}}), x),
      RunOne(MakeNode("aten.gelu.default", {{"self", ValueId{0}}, {"approximate", std::string("tanh")}}), x)));
  EXPECT_FALSE(
      at::equal(RunOne(MakeNode("aten.gelu.default", {{"self", ValueId{0}}, {"approximate", std::string("tanh")}}), x),
                RunOne(MakeNode("aten.gelu.default", {{"self", ValueId{0}}}), x)));
}

TEST(Sizes, OfWhichSomeDependOnTheBatchAreThoseOfTheRun) {
  for (const std::string segment : {"", "again"}) {
    Graph graph("ones");
    const ValueId x = graph.AddInput("x", kVector);
    Node make = MakeNode("aten.ones.default", {{"size", graph::Shape{Dim::Batch(2), 4}}});
    make.segment = segment;
    const TensorType twice = {Dtype::kFloat32, {Dim::Batch(2), 4}};
    const ValueId ones = graph.AddNode(std::move(make), "ones", twice);
    Node cat = MakeNode("aten.cat.default", {{"tensors", std::vector<std::optional<ValueId>>{x, ones}}});
    cat.segment = segment;
    const ValueId all = graph.AddNode(std::move(cat), "all", {Dtype::kFloat32, {Dim::Batch(3), 4}});
    graph.AddOutput("all", all);
    const auto executor = Bound(graph, {});
    for (const int64_t batch : {3, 5}) {
      const at::Tensor input = at::zeros({batch, 4}).requires_grad_(true);
      const at::Tensor result = executor->Run({input})[0];
      EXPECT_THAT(result.sizes(), ElementsAre(3 * batch, 4));
      EXPECT_EQ(result.sum().item<double>(), 2.0 * static_cast<double>(batch) * 4);
      result.sum().backward();
      EXPECT_EQ(input.grad().sum().item<double>(), static_cast<double>(batch) * 4);
    }
  }
}

TEST(Lists, OfTensorsReachTheOp) {
  const at::Tensor x = at::rand({2, 4});
  const std::vector<std::optional<ValueId>> twice = {ValueId{0}, ValueId{0}};
  const at::Tensor y = RunOne(MakeNode("aten.cat.default", {{"tensors", twice}, {"dim", int64_t{1}}}), x);
  EXPECT_THAT(y.sizes(), ElementsAre(2, 8));
}

TEST(Create, UnknownOpsAreNamed) {
  const absl::Status unlisted = CreateError(MakeNode("aten.from_file.default", {{"self", ValueId{0}}}));
  EXPECT_EQ(ReasonOf(unlisted), "UNKNOWN_OP");
  EXPECT_THAT(std::string(unlisted.message()), HasSubstr("aten.from_file.default is not an op that models may use"));
  EXPECT_THAT(std::string(CreateError(MakeNode("relu", {})).message()), HasSubstr("namespace.name.overload"));
  EXPECT_THAT(std::string(CreateError(MakeNode("ampd.absent", {})).message()), HasSubstr("is not registered"));
}

TEST(Create, AShapeIsNoArgumentOfAnotherType) {
  const auto executor =
      Executor::Create(OneNode(MakeNode("aten.relu.default", {{"self", graph::Shape{Dim::Batch(), 4}}})), OpRegistry());
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr("argument self does not take a list of sizes"));
}

TEST(Create, ArgumentsThatDoNotFitAreNamed) {
  const auto message = [](std::vector<graph::Argument> arguments) {
    const absl::Status status = CreateError(MakeNode("aten.linear.default", std::move(arguments)));
    EXPECT_EQ(ReasonOf(status), "BAD_ARGUMENT");
    return std::string(status.message());
  };
  EXPECT_THAT(message({{"input", ValueId{0}}}), HasSubstr("argument weight is missing"));
  EXPECT_THAT(message({{"input", ValueId{0}}, {"weight", std::string("w")}}),
              HasSubstr("argument weight does not take"));
  EXPECT_THAT(message({{"input", ValueId{0}}, {"weight", Operand()}}), HasSubstr("argument weight does not take"));
  EXPECT_THAT(message({{"input", ValueId{0}}, {"wait", ValueId{0}}}), HasSubstr("wait is not in the op's schema"));
}

TEST(Create, EveryOpOfTheTableIsInThisLibTorch) {
  for (const graph::OpRow& row : graph::AllOps()) {
    const absl::Status status = CreateError(MakeNode(std::string(row.op), {}));
    EXPECT_EQ(ReasonOf(status), "BAD_ARGUMENT") << row.op << ": " << status;
  }
}

TEST(Bind, StateThatIsMissingOrOfAnotherShapeIsNamed) {
  const Graph graph = Cnn();
  auto executor = Executor::Create(graph, OpRegistry()).value();
  TensorMap state = InitialState(graph, 1);
  state["fc.bias"] = at::zeros({6});
  const absl::Status shape = executor->Bind(state);
  EXPECT_EQ(ReasonOf(shape), "BAD_STATE");
  EXPECT_EQ(shape.message(), "fc.bias is Float[6]; the graph wants float32[5]");
  state["fc.bias"] = at::zeros({5}, at::kDouble);
  EXPECT_EQ(executor->Bind(state).message(), "fc.bias is Double[5]; the graph wants float32[5]");
  state.erase("fc.bias");
  EXPECT_EQ(executor->Bind(state).message(), "fc.bias is missing");
}

TEST(OpRegistry, AnOpOfOursTakesItsArgumentsInTheNodesOrder) {
  OpRegistry registry;
  registry.Register("ampd.scale", [](std::vector<c10::IValue>& stack) {
    ASSERT_EQ(stack.size(), 4u);
    EXPECT_TRUE(stack[2].isNone());
    EXPECT_EQ(static_cast<at::ScalarType>(stack[3].toInt()), at::kHalf);
    const at::Tensor y = stack[0].toTensor() * stack[1].toDouble();
    stack = {y};
  });
  const Graph graph = OneNode(
      MakeNode("ampd.scale", {{"x", ValueId{0}}, {"by", 4.0}, {"bias", Operand()}, {"dtype", Dtype::kFloat16}}));
  const at::Tensor x = at::rand({2, 4});
  EXPECT_TRUE(at::equal(Bound(graph, {}, registry)->Run({x})[0], x * 4.0));
}

TEST(OpRegistry, AnOpThatReturnsTooFewResultsThrows) {
  OpRegistry registry;
  registry.Register("ampd.none", [](std::vector<c10::IValue>& stack) { stack.clear(); });
  const auto executor = Bound(OneNode(MakeNode("ampd.none", {{"x", ValueId{0}}})), {}, registry);
  EXPECT_THROW(executor->Run({at::rand({2, 4})}), c10::Error);
}

TEST(OpRegistryDeathTest, ANameOfAnotherNamespaceOrTwiceEndsTheProcess) {
  OpRegistry registry;
  registry.Register("ampd.twice", nullptr);
  EXPECT_DEATH(registry.Register("ampd.twice", nullptr), "registered twice");
  EXPECT_DEATH(registry.Register("aten.relu.default", nullptr), "not of namespace ampd");
}

// Runs the chain x -> a -> b -> c -> output. Each of a, b and c doubles its input, and records at its start and at its
// end how many of the chain's values are alive.
class Lifetimes {
 public:
  Lifetimes() {
    registry_.Register("ampd.double", [this](std::vector<c10::IValue>& stack) {
      const at::Tensor y = stack[0].toTensor() * 2;
      alive_at_start.push_back(NumAlive());
      values_.emplace_back(y.getIntrusivePtr());
      stack = {y};
      alive_at_end.push_back(NumAlive());
    });
  }

  // Runs the chain. `read_again`: whether the node after c also reads the result of a.
  at::Tensor Run(bool read_again) {
    Graph graph("chain");
    const ValueId x = graph.AddInput("x", kVector);
    const ValueId a = Double(graph, x);
    const ValueId b = Double(graph, a);
    const ValueId c = Double(graph, b);
    const ValueId sum =
        graph.AddNode(MakeNode("aten.add.Tensor", {{"self", c}, {"other", read_again ? a : c}}), "y", kVector);
    graph.AddOutput("y", sum);
    const auto executor = Bound(graph, {}, registry_);
    std::vector<at::Tensor> inputs;  // An initializer list would keep the tensor alive.
    inputs.push_back(at::ones({2, 4}));
    values_.emplace_back(inputs[0].getIntrusivePtr());
    at::Tensor output = executor->Run(std::move(inputs))[0];
    alive_after_run = NumAlive();
    return output;
  }

  std::vector<int> alive_at_start, alive_at_end;
  int alive_after_run = -1;

 private:
  ValueId Double(Graph& graph, ValueId x) { return graph.AddNode(MakeNode("ampd.double", {{"x", x}}), "y", kVector); }

  int NumAlive() const {
    int alive = 0;
    for (const auto& value : values_) {
      alive += value.expired() ? 0 : 1;
    }
    return alive;
  }

  OpRegistry registry_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> values_;
};

TEST(Lifetime, AValueIsDroppedByItsLastReader) {
  Lifetimes lifetimes;
  const at::Tensor output = lifetimes.Run(/*read_again=*/false);
  EXPECT_EQ(output[0][0].item<float>(), 16);
  // When an op starts, its argument is the only value alive. When the op has ended and its argument stack is gone, its
  // result is the only value alive.
  EXPECT_THAT(lifetimes.alive_at_start, ElementsAre(1, 1, 1));
  EXPECT_THAT(lifetimes.alive_at_end, ElementsAre(1, 1, 1));
  EXPECT_EQ(lifetimes.alive_after_run, 0);
}

TEST(Lifetime, AValueThatIsReadAgainLivesUntilThen) {
  Lifetimes lifetimes;
  const at::Tensor output = lifetimes.Run(/*read_again=*/true);
  EXPECT_EQ(output[0][0].item<float>(), 10);
  EXPECT_THAT(lifetimes.alive_at_start, ElementsAre(1, 1, 2));
  EXPECT_EQ(lifetimes.alive_after_run, 0);
}

}  // namespace
}  // namespace ampd::executor
