#include "graph/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder/builder.h"
#include "graph/print.h"
#include "tests/golden_file.h"

namespace ampd::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Returns a graph with one layer of every kind that the builder has.
Graph Zoo() {
  GraphBuilder b("zoo");
  ValueId x = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 8, 8}});
  x = b.Conv2d("conv", x, {.out_channels = 4, .kernel_size = 3, .padding = 1, .bias = false});
  x = b.Relu("relu", b.BatchNorm2d("bn", x));
  x = b.Flatten("flatten", b.MaxPool2d("pool", x, {.kernel_size = 2}));
  x = b.Gelu("gelu", b.LayerNorm("norm", b.Linear("fc", x, 6)));
  x = b.Dropout("drop", x, 0.25);
  x = b.Add("", x, b.Mul("", x, b.Softmax("softmax", x, -1)));
  b.Output("logits", b.Linear("head", x, 3));
  auto graph = std::move(b).Build();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& node : graph.nodes()) {
    ops.push_back(node.op);
  }
  return ops;
}

TEST(Printing, OfEveryLayerIsGolden) { ExpectGolden("tests/graph/golden/zoo.txt", ToText(Zoo())); }

TEST(WithLossHead, OfEveryLayerIsGolden) {
  const auto graph = WithLossHead(Zoo());
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(graph->Check().ok()) << graph->Check();
  ExpectGolden("tests/graph/golden/zoo_loss_head.txt", ToText(*graph));
}

TEST(WithEvalHead, OfEveryLayerIsGolden) {
  const auto graph = WithEvalHead(EvalProgram(Zoo()));
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(graph->Check().ok()) << graph->Check();
  ExpectGolden("tests/graph/golden/zoo_eval_head.txt", ToText(*graph));
}

TEST(WithLossHead, AModelWithoutAHeadIsRefused) {
  Graph graph("blind");
  graph.AddOutput("features", graph.AddInput("images", {Dtype::kFloat32, {Dim::Batch(), 2}}));
  EXPECT_EQ(ReasonOf(WithLossHead(graph).status()), "NO_HEAD");
  EXPECT_EQ(ReasonOf(WithEvalHead(graph).status()), "NO_HEAD");
}

// A model with two losses over shared layers. Only the path to the first loss has a norm.
Graph TwoLosses() {
  GraphBuilder b("two");
  const ValueId images = b.Input("images", {Dtype::kFloat32, {Dim::Batch(), 2, 4, 4}});
  const ValueId x = b.Conv2d("shared", images, {.out_channels = 3, .kernel_size = 3});
  const ValueId first = b.Linear("first", b.Flatten("flat", b.BatchNorm2d("norm", x)), 1);
  const ValueId second = b.Linear("second", b.Flatten("flat", x), 1);
  b.Output("first_loss", b.BinaryCrossEntropy("", first, b.OnesLike("", first)));
  b.Output("second_loss", b.BinaryCrossEntropy("", second, b.ZerosLike("", second)));
  return std::move(b).Build().value();
}

// Returns a model that gives logits for every position of a sequence.
Graph OfSequences() {
  GraphBuilder b("sequences");
  b.Output("logits", b.Linear("head", b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 5, 4}}), 3));
  return std::move(b).Build().value();
}

TEST(WithLossHead, EveryPlaceOfASequenceIsASample) {
  const Graph graph = WithLossHead(OfSequences()).value();
  EXPECT_TRUE(graph.Check().ok()) << graph.Check();
  EXPECT_EQ(ToText(graph.type(*graph.FindInput("labels"))), "int64[5*B]");
  EXPECT_THAT(Ops(graph), ElementsAre("aten.linear.default", "aten.view.default", "aten.cross_entropy_loss.default"));
  EXPECT_EQ(ToText(graph.type(graph.nodes()[1].outputs[0])), "float32[5*B, 3]");
}

TEST(WithEvalHead, EveryPlaceOfASequenceIsASample) {
  const Graph graph = WithEvalHead(EvalProgram(OfSequences())).value();
  EXPECT_TRUE(graph.Check().ok()) << graph.Check();
  EXPECT_EQ(ToText(graph.type(*graph.FindInput("labels"))), "int64[5*B]");
  EXPECT_EQ(ToText(graph.type(graph.outputs()[1].value)), "int64[]");
  EXPECT_FALSE(graph.FindOutput("logits").has_value()) << "of every token of a vocabulary";
}

TEST(LossProgram, HasWhatLeadsToItsLossAndNoOtherLossesStatistics) {
  const Graph model = TwoLosses();
  const auto first = LossProgram(model, "first_loss");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->Check().ok()) << first->Check();
  EXPECT_THAT(Ops(*first), ElementsAre("aten.conv2d.default", "aten.batch_norm.default", "aten.flatten.using_ints",
                                       "aten.linear.default", "aten.ones_like.default",
                                       "aten.binary_cross_entropy_with_logits.default"));
  const auto second = LossProgram(model, "second_loss");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Ops(*second), ElementsAre("aten.conv2d.default", "aten.flatten.using_ints", "aten.linear.default",
                                        "aten.zeros_like.default", "aten.binary_cross_entropy_with_logits.default"));
  ASSERT_EQ(second->outputs().size(), 1u);
  EXPECT_EQ(second->outputs()[0].name, "second_loss");
  EXPECT_EQ(second->parameters().size(), model.parameters().size());
  EXPECT_EQ(second->inputs().size(), model.inputs().size());
}

TEST(LossProgram, OfAnOutputThatIsNoScalarOrNotThereIsRefused) {
  EXPECT_EQ(ReasonOf(LossProgram(TwoLosses(), "third_loss").status()), "NO_LOSS");
  EXPECT_EQ(ReasonOf(LossProgram(Zoo(), "logits").status()), "NO_LOSS");
}

TEST(EvalProgram, NormsReadTheirRunningStatisticsAndDropoutIsGone) {
  const std::string text = ToText(EvalProgram(Zoo()));
  EXPECT_THAT(text, HasSubstr("training=False"));
  EXPECT_THAT(text, Not(HasSubstr("aten.dropout")));
  EXPECT_THAT(ToText(Zoo()), HasSubstr("aten.dropout"));
}

TEST(EvalProgram, OfAnEvalProgramChangesNothing) {
  const Graph once = EvalProgram(Zoo());
  EXPECT_EQ(ToText(EvalProgram(once)), ToText(once));
}

TEST(OwnEvalProgram, KeepsWhatActsInEvaluation) {
  const std::string text = ToText(OwnEvalProgram(Zoo()));
  EXPECT_THAT(text, HasSubstr("aten.dropout.default"));
  EXPECT_THAT(text, HasSubstr("running_mean=None, running_var=None, training=True")) << "updates no statistics";
}

TEST(OwnEvalProgram, OfAnEvalProgramChangesNothing) {
  const Graph evaluation = EvalProgram(Zoo());
  EXPECT_EQ(ToText(OwnEvalProgram(evaluation)), ToText(evaluation));
}

TEST(WithoutDeadNodes, DropsWhatNothingReadsWithEverythingBehindIt) {
  GraphBuilder b("dead");
  const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 4}});
  b.Gelu("unread", b.Linear("unread", x, 2));
  b.Output("y", b.Relu("read", x));
  const Graph graph = WithoutDeadNodes(std::move(b).Build().value());
  EXPECT_THAT(Ops(graph), ElementsAre("aten.relu.default"));
  EXPECT_EQ(graph.parameters().size(), 2u);
}

TEST(WithoutDeadNodes, KeepsANormThatWritesItsStatistics) {
  GraphBuilder b("norm");
  const ValueId x = b.Input("x", {Dtype::kFloat32, {Dim::Batch(), 4, 2, 2}});
  b.BatchNorm2d("bn", x);
  b.Output("y", b.Relu("", x));
  const Graph graph = std::move(b).Build().value();
  EXPECT_THAT(Ops(WithoutDeadNodes(graph)), ElementsAre("aten.batch_norm.default", "aten.relu.default"));
  EXPECT_THAT(Ops(EvalProgram(graph)), ElementsAre("aten.relu.default"));
}

// Returns a graph of y = gelu(x), a view of y, and then relu_(y), which writes over y. `output` chooses the value that
// is read afterwards: y, the view or relu_'s result.
template <typename Output>
Graph WrittenInPlace(Output output) {
  Graph graph("written");
  const ValueId x = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 4}});
  const auto call = [&graph](const std::string& op, std::vector<Argument> arguments) {
    return graph.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = "m"}, "v",
                         {Dtype::kFloat32, {Dim::Batch(), 4}});
  };
  const ValueId y = call("aten.gelu.default", {{"self", x}});
  const ValueId view = call("aten.view.default", {{"self", y}, {"size", std::vector<int64_t>{-1, 4}}});
  const ValueId written = call("aten.relu_.default", {{"self", y}});
  const ValueId read = output(y, view, written);
  graph.AddOutput("logits", call("aten.tanh.default", {{"self", read}}));
  return graph;
}

TEST(WithoutDeadNodes, KeepsAWriteWhoseMemoryIsReadByAnotherName) {
  const Graph itself = WrittenInPlace([](ValueId y, ValueId, ValueId) { return y; });
  EXPECT_THAT(Ops(WithoutDeadNodes(itself)),
              ElementsAre("aten.gelu.default", "aten.relu_.default", "aten.tanh.default"));
  const Graph by_view = WrittenInPlace([](ValueId, ValueId view, ValueId) { return view; });
  EXPECT_THAT(Ops(WithoutDeadNodes(by_view)),
              ElementsAre("aten.gelu.default", "aten.view.default", "aten.relu_.default", "aten.tanh.default"));
}

TEST(WithoutDeadNodes, DropsAWriteThatNothingReadsAfterwards) {
  Graph graph = WrittenInPlace([](ValueId, ValueId, ValueId written) { return written; });
  graph.SetOutputs({{"x", graph.inputs()[0]}});
  EXPECT_THAT(Ops(WithoutDeadNodes(graph)), IsEmpty());
}

TEST(WithoutDeadNodes, KeepsAWriteOfABuffer) {
  Graph graph("counter");
  const ValueId buffer = graph.AddBuffer("count", {Dtype::kFloat32, {1}}, Initializer::Constant(0));
  graph.AddNode({.op = "aten.add_.Tensor",
                 .arguments = {{"self", buffer}, {"other", int64_t{1}}},
                 .outputs = {},
                 .module_path = "m"},
                "v", {Dtype::kFloat32, {1}});
  EXPECT_THAT(Ops(WithoutDeadNodes(graph)), ElementsAre("aten.add_.Tensor"));
}

TEST(WithLossHead, OfAModelThatWritesInPlaceReadsWhatWasWritten) {
  const auto program = WithLossHead(WrittenInPlace([](ValueId y, ValueId, ValueId) { return y; }));
  ASSERT_TRUE(program.ok()) << program.status();
  const auto plain = WithoutInPlaceOps(*program);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_THAT(Ops(*plain), ElementsAre("aten.gelu.default", "aten.relu.default", "aten.tanh.default",
                                       "aten.cross_entropy_loss.default"));
  EXPECT_EQ(plain->nodes()[2].ValueOf("self"), plain->nodes()[1].outputs[0]);
}

TEST(WithoutInPlaceOps, LaterReadersReadTheResult) {
  for (const bool by_name : {false, true}) {
    const auto graph =
        WithoutInPlaceOps(WrittenInPlace([&](ValueId y, ValueId, ValueId written) { return by_name ? y : written; }));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Node& relu = graph->nodes()[2];
    EXPECT_EQ(relu.op, "aten.relu.default");
    EXPECT_EQ(graph->nodes()[3].ValueOf("self"), relu.outputs[0]);
  }
}

TEST(WithoutInPlaceOps, AWriteThatAViewShowsIsRefused) {
  const auto graph = WithoutInPlaceOps(WrittenInPlace([](ValueId, ValueId view, ValueId) { return view; }));
  EXPECT_EQ(ReasonOf(graph.status()), "ALIASED_WRITE");
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("use aten.relu.default"));
}

// In evaluation mode or with p = 0, dropout returns its input itself, not a copy. If relu_ then writes to dropout's
// result, that also changes dropout's input.
TEST(WithoutInPlaceOps, AWriteToWhatDropoutGaveBackIsReadInItsInput) {
  const auto read_after = [](bool train, const Operand& p) {
    Graph graph("dropped");
    const TensorType type = {Dtype::kFloat32, {Dim::Batch(), 4}};
    const ValueId x = graph.AddInput("x", type);
    const auto call = [&](const std::string& op, std::vector<Argument> arguments) {
      return graph.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = "m"}, "v", type);
    };
    const ValueId y = call("aten.gelu.default", {{"self", x}});
    const ValueId dropped = call("aten.dropout.default", {{"input", y}, {"p", p}, {"train", train}});
    call("aten.relu_.default", {{"self", dropped}});
    call("aten.tanh.default", {{"self", y}});
    const Graph plain = WithoutInPlaceOps(graph).value();
    const Node& relu = plain.nodes()[2];
    return plain.nodes()[3].ValueOf("self") == relu.outputs[0] ? "what was written" : "what was there";
  };
  EXPECT_EQ(read_after(true, 0.5), std::string("what was there"));
  EXPECT_EQ(read_after(true, 0.0), std::string("what was written"));
  EXPECT_EQ(read_after(true, int64_t{0}), std::string("what was written"));
  EXPECT_EQ(read_after(false, 0.5), std::string("what was written"));
}

// Returns a graph of whole = gelu(x). It takes some columns of `whole`, and then one row of these, to which relu_
// writes. `output` chooses the graph's output: whole, the columns, the row before the write, or relu_'s result.
template <typename Output>
Graph WrittenInPart(Output output) {
  Graph graph("written");
  const ValueId x = graph.AddInput("x", {Dtype::kFloat32, {Dim::Batch(), 4}});
  const auto call = [&graph](const std::string& op, std::vector<Argument> arguments, Shape shape) {
    return graph.AddNode({.op = op, .arguments = std::move(arguments), .outputs = {}, .module_path = "m"}, "v",
                         {Dtype::kFloat32, std::move(shape)});
  };
  const ValueId whole = call("aten.gelu.default", {{"self", x}}, {Dim::Batch(), 4});
  const ValueId columns =
      call("aten.slice.Tensor", {{"self", whole}, {"dim", int64_t{1}}, {"start", int64_t{1}}, {"end", int64_t{3}}},
           {Dim::Batch(), 2});
  const ValueId row = call("aten.select.int", {{"self", columns}, {"dim", int64_t{0}}, {"index", int64_t{0}}}, {2});
  const ValueId written = call("aten.relu_.default", {{"self", row}}, {2});
  graph.AddOutput("logits", output(whole, columns, row, written));
  return graph;
}

TEST(WithoutInPlaceOps, AWriteToAPartIsPutBackIntoWhatIsReadAfterwards) {
  const Graph graph = WrittenInPart([](ValueId whole, ValueId, ValueId, ValueId) { return whole; });
  const auto plain = WithoutInPlaceOps(graph);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(plain->Check().ok()) << plain->Check();
  EXPECT_EQ(ToText(*plain),
            "graph written\n"
            "input %x: float32[B, 4]\n"
            "%v: float32[B, 4] = aten.gelu.default(self=%x)  # m\n"
            "%v_1: float32[B, 2] = aten.slice.Tensor(self=%v, dim=1, start=1, end=3)  # m\n"
            "%v_2: float32[2] = aten.select.int(self=%v_1, dim=0, index=0)  # m\n"
            "%v_3: float32[2] = aten.relu.default(self=%v_2)  # m (in place)\n"
            "%v_1_written: float32[B, 2] = aten.select_scatter.default(self=%v_1, src=%v_3, dim=0, index=0)  # m (in "
            "place)\n"
            "%v_written: float32[B, 4] = aten.slice_scatter.default(self=%v, src=%v_1_written, dim=1, start=1, "
            "end=3)  # m (in place)\n"
            "output logits = %v_written\n");
}

TEST(WithoutInPlaceOps, APartIsPutBackNoFurtherThanIsRead) {
  const auto ops = [](auto output) { return Ops(WithoutInPlaceOps(WrittenInPart(output)).value()); };
  EXPECT_THAT(ops([](ValueId, ValueId, ValueId, ValueId written) { return written; }),
              ElementsAre("aten.gelu.default", "aten.slice.Tensor", "aten.select.int", "aten.relu.default"));
  EXPECT_THAT(ops([](ValueId, ValueId columns, ValueId, ValueId) { return columns; }),
              ElementsAre("aten.gelu.default", "aten.slice.Tensor", "aten.select.int", "aten.relu.default",
                          "aten.select_scatter.default"));
}

// The graph has two views of one tensor, so a write to one is visible in the other.
TEST(WithoutInPlaceOps, AWriteToAPartThatAnotherPartShowsIsRefused) {
  Graph graph = WrittenInPart([](ValueId whole, ValueId, ValueId, ValueId) { return whole; });
  std::vector<Node> nodes = graph.nodes();
  const ValueId other = graph.AddValue("other", {Dtype::kFloat32, {Dim::Batch()}});
  nodes.insert(nodes.begin() + 1, Node{.op = "aten.select.int",
                                       .arguments = {{"self", nodes[0].outputs[0]}, {"dim", int64_t{1}}},
                                       .outputs = {other},
                                       .module_path = "m"});
  graph.SetNodes(std::move(nodes));
  ASSERT_TRUE(WithoutInPlaceOps(graph).ok()) << "before it is read";
  graph.AddOutput("other", other);
  EXPECT_EQ(ReasonOf(WithoutInPlaceOps(graph).status()), "ALIASED_WRITE");
}

TEST(WithoutInPlaceOps, AWriteToAPartOfABufferIsRefused) {
  Graph graph("counter");
  const ValueId buffer = graph.AddBuffer("count", {Dtype::kFloat32, {2}}, Initializer::Constant(0));
  const ValueId part = graph.AddNode({.op = "aten.select.int",
                                      .arguments = {{"self", buffer}, {"dim", int64_t{0}}, {"index", int64_t{0}}},
                                      .outputs = {},
                                      .module_path = "m"},
                                     "part", {Dtype::kFloat32, {}});
  graph.AddNode({.op = "aten.relu_.default", .arguments = {{"self", part}}, .outputs = {}, .module_path = "m"}, "v",
                {Dtype::kFloat32, {}});
  graph.AddOutput("count", buffer);
  const absl::Status status = WithoutInPlaceOps(graph).status();
  EXPECT_EQ(ReasonOf(status), "ALIASED_WRITE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("writes a parameter or a buffer"));
}

TEST(WithoutInPlaceOps, AWriteOfABufferIsRefused) {
  Graph graph("counter");
  const ValueId buffer = graph.AddBuffer("count", {Dtype::kFloat32, {1}}, Initializer::Constant(0));
  graph.AddOutput(
      "y",
      graph.AddNode({.op = "aten.relu_.default", .arguments = {{"self", buffer}}, .outputs = {}, .module_path = "m"},
                    "y", {Dtype::kFloat32, {1}}));
  EXPECT_EQ(ReasonOf(WithoutInPlaceOps(graph).status()), "ALIASED_WRITE");
}

TEST(WithoutInPlaceOps, AWriteThatAnOutputShowsIsRefused) {
  Graph graph = WrittenInPlace([](ValueId, ValueId, ValueId written) { return written; });
  ASSERT_TRUE(WithoutInPlaceOps(graph).ok()) << WithoutInPlaceOps(graph).status();
  graph.AddOutput("features", graph.nodes()[1].outputs[0]);
  EXPECT_EQ(ReasonOf(WithoutInPlaceOps(graph).status()), "ALIASED_WRITE");
}

}  // namespace
}  // namespace ampd::graph
