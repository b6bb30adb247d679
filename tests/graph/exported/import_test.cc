#include "graph/exported/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "graph/print.h"
#include "tests/graph/exported/exported_linear.h"

namespace ampd::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ImportProgram, AProgramIsAGraphByPythonsNames) {
  EXPECT_EQ(Text(Linear()),
            "graph exported\n"
            "input %images: float32[B, 4]\n"
            "parameter %fc.weight: float32[3, 4] constant(0)\n"
            "parameter %fc.bias: float32[3] constant(0)\n"
            "%linear: float32[B, 3] = aten.linear.default(input=%images, weight=%fc.weight, bias=%fc.bias)  # fc\n"
            "%relu: float32[B, 3] = aten.relu.default(self=%linear)  # act\n"
            "output logits = %relu\n");
}

TEST(ImportProgram, ShapesLeaveTheBatchToTheOp) {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["sym_int_values"]["n"] = Size(kBatch);
  graph["tensor_values"]["relu"] = Tensor({std::string("Mul(Integer(3), ") + kBatch + ")"});
  graph["nodes"][1] = Call(
      "view.default",
      {{"self", Named("linear")}, {"size", {{"as_sym_ints", json::array({{{"as_name", "n"}}, {{"as_int", -1}}})}}}},
      "relu");
  EXPECT_THAT(Text(model), HasSubstr("%relu: float32[3*B] = aten.reshape.default(self=%linear, shape=[-1])\n"));
}

TEST(ImportProgram, OtherOpsAreGivenSizesThatDependOnTheBatch) {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["sym_int_values"]["n"] = Size(std::string("Mul(Integer(2), ") + kBatch + ")");
  graph["tensor_values"]["ones"] = Tensor({std::string("Mul(Integer(2), ") + kBatch + ")", 3});
  graph["nodes"].push_back(Call("ones.default",
                                {{"size", {{"as_sym_ints", json::array({{{"as_name", "n"}}, {{"as_int", 3}}})}}},
                                 {"device", {{"as_device", {{"type", "cpu"}}}}}},
                                "ones"));
  graph["outputs"][0] = Named("ones");
  EXPECT_THAT(Text(model), HasSubstr("%ones: float32[2*B, 3] = aten.ones.default(size=[2*B, 3])\n"));
}

TEST(ImportProgram, GradientsOfATableThatPythonStoresSparselyAreStoredDensely) {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["tensor_values"]["x"] = Tensor({kBatch}, false, kLong);
  graph["tensor_values"]["linear"] = Tensor({kBatch, 4});
  graph["tensor_values"]["relu"] = Tensor({kBatch, 4});
  const json no = {{"as_bool", false}};
  graph["nodes"][0] = Call("embedding.default",
                           {{"weight", Named("p_w")},
                            {"indices", Named("x")},
                            {"padding_idx", {{"as_int", -1}}},
                            {"scale_grad_by_freq", no},
                            {"sparse", {{"as_bool", true}}}},
                           "linear");
  EXPECT_THAT(Text(model), HasSubstr("aten.embedding.default(weight=%fc.weight, indices=%input_ids, padding_idx=-1, "
                                     "scale_grad_by_freq=False)"));
}

TEST(ImportProgram, ACastToAnothersDtypeIsACast) {
  json model = Linear();
  GraphOf(model)["tensor_values"]["relu"] = Tensor({kBatch, 3}, false, kLong);
  GraphOf(model)["nodes"][1] = Call("type_as.default", {{"self", Named("linear")}, {"other", Named("linear")}}, "relu");
  EXPECT_THAT(Text(model), HasSubstr("%relu: int64[B, 3] = aten.to.dtype(self=%linear, dtype=int64)\n"));
}

const json kOff = {{"as_bool", false}};
const json kOn = {{"as_bool", true}};

TEST(ImportProgram, WhatRanWithoutGradientsHasNoneBehindIt) {
  EXPECT_THAT(Text(Nested("wrap_with_set_grad_enabled", {kOff})),
              HasSubstr("%graph_1.relu: float32[B, 3] = aten.relu.default(self=%linear)  # act\n"
                        "%relu: float32[B, 3] = aten.detach.default(self=%graph_1.relu)  # act\n"));
  EXPECT_THAT(Text(Nested("wrap_with_set_grad_enabled", {kOn})), HasSubstr("output logits = %graph_1.relu\n"));
}

// Autograd does not see an in-place write under torch.no_grad(), so it would compute the gradient from the values
// before the write.
TEST(ImportProgram, AWriteWithoutGradientsOverWhatHasOneIsRefused) {
  json model = Nested("wrap_with_set_grad_enabled", {kOff});
  json& relu = GraphOf(model)["nodes"][1]["inputs"][1]["arg"]["as_graph"]["graph"]["nodes"][0];
  relu["target"] = "torch.ops.aten.relu_.default";
  EXPECT_EQ(Text(model),
            "aten.relu_.default of act (net.py:10) writes under torch.no_grad() over what has a gradient; use "
            "aten.relu.default of what is detached");
  for (const char* name : {"p_w", "p_b"}) {
    GraphOf(model)["tensor_values"][name]["requires_grad"] = false;
  }
  EXPECT_THAT(Text(model), HasSubstr("aten.relu.default(self=%linear)  # act (in place)")) << "nothing is trained";
}

TEST(ImportProgram, WhatRanWithoutAutocastKeepsFp32) {
  const json cpu = {{"as_string", "cpu"}};
  const json bf16 = {{"as_scalar_type", 13}};
  EXPECT_THAT(Text(Nested("wrap_with_autocast", {cpu, bf16, kOff, kOff})),
              HasSubstr("aten.relu.default(self=%linear)  # act (fp32)\n"));
  EXPECT_THAT(Text(Nested("wrap_with_autocast", {cpu, bf16, kOn, kOff})),
              HasSubstr("aten.relu.default(self=%linear)  # act\n"));
}

TEST(ImportProgram, GraphsWithinAGraphAreCalledAsTheyAre) {
  const auto message = [](const json& model) { return std::string(Import(model).status().message()); };
  EXPECT_EQ(message(Nested("while_loop", {})),
            "higher_order.while_loop of act (net.py:10) is not an op that models may use");
  EXPECT_EQ(message(Nested("wrap_with_set_grad_enabled", {})),
            "higher_order.wrap_with_set_grad_enabled of act (net.py:10): its arguments are not those of torch 2.11");
  json more = Nested("wrap_with_set_grad_enabled", {kOff});
  json& inputs = GraphOf(more)["nodes"][1]["inputs"];
  inputs.push_back(inputs.back());
  EXPECT_THAT(message(more), HasSubstr("has other inputs or outputs than it is called with"));
  inputs.erase(2);
  inputs[2]["arg"] = {{"as_int", 1}};
  EXPECT_THAT(message(more), HasSubstr("is given something that is no tensor"));
}

// Returns the layer of Linear() with a second input, which is added to the output.
json WithMask() {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["inputs"].push_back(Named("mask"));
  graph["tensor_values"]["mask"] = Tensor({kBatch, 3});
  graph["tensor_values"]["add"] = Tensor({kBatch, 3});
  InputsOf(model).push_back(Input("mask"));
  graph["nodes"].push_back(Call("add.Tensor", {{"self", Named("relu")}, {"other", Named("mask")}}, "add"));
  graph["outputs"][0] = Named("add");
  return model;
}

TEST(ImportProgram, InputsAreCalledByTheirFields) {
  const auto exported = ParseExportedModel(WithMask().dump());
  const auto text = [&](const InputNames& inputs) {
    const auto graph = ImportProgram(*exported, exported->train, {.inputs = inputs});
    return graph.ok() ? ToText(*graph) : std::string(graph.status().message());
  };
  EXPECT_THAT(text({}), HasSubstr("input %x: float32[B, 4]\ninput %mask: float32[B, 3]\n"));
  EXPECT_THAT(text({{"mask", "images"}}), HasSubstr("input %images: float32[B, 3]\n"));
  EXPECT_THAT(text({{"mask", "images"}}), testing::StartsWith("graph exported\ninput %images"));
  EXPECT_EQ(text({{"y", "images"}}), "the program has no input y");
  EXPECT_EQ(text({{"mask", "x"}}), "two inputs of the program are called x");
  EXPECT_THAT(ToText(*ImportEvalProgram(*exported, {.inputs = {{"x", "images"}}})),
              HasSubstr("input %images: float32[B, 4]\n"));
}

TEST(ImportProgram, WhatIsFrozenOrNotReadIsABuffer) {
  json model = Linear();
  GraphOf(model)["tensor_values"]["p_b"]["requires_grad"] = false;
  AddState(model, Parameter("p_u", "unused"), "p_u", "unused", Tensor({2}, true), Stored("weight_2", {2}));
  const auto graph = Import(model);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->parameters().size(), 1u);
  ASSERT_EQ(graph->buffers().size(), 2u);
  EXPECT_EQ(graph->buffers()[0].name, "fc.bias");
  EXPECT_EQ(graph->buffers()[1].name, "unused");
}

TEST(ImportProgram, WhatTheLogitsDoNotDependOnIsABuffer) {
  json model = Linear();
  GraphOf(model)["outputs"].insert(GraphOf(model)["outputs"].begin(), Named("x"));
  const auto exported = ParseExportedModel(model.dump());
  EXPECT_EQ(ImportProgram(*exported, exported->train, {.output = 1})->parameters().size(), 2u);
  EXPECT_TRUE(ImportProgram(*exported, exported->train)->parameters().empty());
}

TEST(ImportProgram, TiedParametersAreOne) {
  json model = Linear();
  AddState(model, Parameter("p_t", "tied.weight"), "p_t", "tied.weight", Tensor({3, 4}, true),
           Stored("weight_0", {3, 4}));
  GraphOf(model)["nodes"][0]["inputs"][1]["arg"] = Named("p_t");
  EXPECT_THAT(Text(model), HasSubstr("weight=%fc.weight"));
  ASSERT_EQ(Import(model)->parameters().size(), 2u);
  EXPECT_EQ(Import(model)->parameters()[0].name, "fc.weight") << "which is read by its other name alone";
}

TEST(ImportProgram, TiedParametersOfNoDimensionAreOneToo) {
  json model = Linear();
  for (const char* name : {"scale", "scale_again"}) {
    const std::string tensor = std::string("p_") + name;
    AddState(model, Parameter(tensor, name), tensor, name, Tensor({}, true), Stored("weight_9", {}));
  }
  json& graph = GraphOf(model);
  graph["tensor_values"]["scaled"] = Tensor({kBatch, 3});
  graph["nodes"].push_back(
      Call("mul.Tensor", {{"self", Named("p_scale")}, {"other", Named("p_scale_again")}}, "scaled"));
  graph["outputs"][0] = Named("scaled");
  EXPECT_THAT(Text(model), HasSubstr("aten.mul.Tensor(self=%scale, other=%scale)"));
}

TEST(ImportProgram, CountsThatNothingReadsAndNoNormKeepsAreLeftOut) {
  json model = Linear();
  AddState(model, Buffer("b_n", "bn.num_batches_tracked"), "b_n", "bn.num_batches_tracked", Tensor({}, false, kLong),
           Stored("weight_2", {}, kLong));
  json& graph = GraphOf(model);
  graph["tensor_values"]["add_"] = Tensor({}, false, kLong);
  graph["nodes"].push_back(Call("add_.Tensor", {{"self", Named("b_n")}, {"other", {{"as_int", 1}}}}, "add_"));
  ASSERT_TRUE(Import(model).ok()) << Import(model).status();
  EXPECT_TRUE(Import(model)->buffers().empty());
  EXPECT_TRUE(Import(model)->batch_counters().empty());
  EXPECT_EQ(Import(model)->nodes().size(), 2u);
  graph["outputs"].push_back(Named("add_"));
  EXPECT_THAT(std::string(Import(model).status().message()), HasSubstr("writes a parameter or a buffer"));
}

TEST(ImportProgram, OpsThatWriteInPlaceBecomeThoseThatDoNot) {
  json model = Linear();
  GraphOf(model)["nodes"][1]["target"] = "torch.ops.aten.relu_.default";
  EXPECT_THAT(Text(model), HasSubstr("aten.relu.default(self=%linear)"));
}

// Returns a model whose forward creates a constant with torch.tensor(...), adds the bias to it in place, and multiplies
// the logits by the result.
json WithWrittenCopy() {
  json model = Linear();
  json& graph = GraphOf(model);
  AddState(model, Constant("c_fresh", "lifted_tensor_0"), "c_fresh", "lifted_tensor_0", Tensor({3}),
           Stored("tensor_0", {3}));
  graph["nodes"].push_back(Call("lift_fresh_copy.default", {{"self", Named("c_fresh")}}, "fresh"));
  graph["nodes"].push_back(Call("detach_.default", {{"self", Named("fresh")}}, "detach_"));
  graph["nodes"].push_back(Call("add_.Tensor", {{"self", Named("detach_")}, {"other", Named("p_b")}}, "add_"));
  graph["nodes"].push_back(Call("mul.Tensor", {{"self", Named("relu")}, {"other", Named("add_")}}, "mul"));
  for (const char* tensor : {"fresh", "detach_", "add_"}) {
    graph["tensor_values"][tensor] = Tensor({3});
  }
  graph["tensor_values"]["mul"] = Tensor({kBatch, 3});
  graph["outputs"][0] = Named("mul");
  return model;
}

TEST(ImportProgram, ACopyOfAConstantMayBeWritten) {
  EXPECT_THAT(Text(WithWrittenCopy()),
              HasSubstr("%detach_: float32[3] = aten.detach.default(self=%lifted_tensor_0)\n"
                        "%add_: float32[3] = aten.add.Tensor(self=%detach_, other=%fc.bias)  # (in place)\n"
                        "%mul: float32[B, 3] = aten.mul.Tensor(self=%relu, other=%add_)\n"));
}

TEST(ImportProgram, ACopyOfAConstantMayBeWrittenInPart) {
  json model = WithWrittenCopy();
  json& graph = GraphOf(model);
  graph["nodes"][4] = Call("slice.Tensor", {{"self", Named("detach_")}, {"start", {{"as_int", 1}}}}, "slice");
  graph["nodes"][5] = Call("add_.Tensor", {{"self", Named("slice")}, {"other", {{"as_float", 2.0}}}}, "add_");
  graph["nodes"].push_back(Call("mul.Tensor", {{"self", Named("relu")}, {"other", Named("detach_")}}, "mul"));
  graph["tensor_values"]["slice"] = graph["tensor_values"]["add_"] = Tensor({2});
  EXPECT_THAT(Text(model), HasSubstr("aten.slice_scatter.default(self=%detach_, src=%add_, start=1)"));
}

TEST(ImportProgram, AConstantMayNotBeWritten_ItsCopyNotWhileItIsReadOtherwise) {
  json model = WithWrittenCopy();
  GraphOf(model)["nodes"][3]["inputs"][0]["arg"] = Named("c_fresh");
  EXPECT_THAT(Text(model), HasSubstr("aten.add_.Tensor (net.py:10) writes a parameter or a buffer"));
  model = WithWrittenCopy();
  GraphOf(model)["nodes"][5]["inputs"][0]["arg"] = Named("fresh");
  EXPECT_THAT(Text(model), HasSubstr("writes the memory of %fresh, which is read afterwards"));
}

TEST(ImportProgram, APartThatIsNarrowedMayBeWritten) {
  json model = WithWrittenCopy();
  json& graph = GraphOf(model);
  graph["nodes"][4] = Call(
      "narrow.default",
      {{"self", Named("detach_")}, {"dim", {{"as_int", 0}}}, {"start", {{"as_int", 1}}}, {"length", {{"as_int", 2}}}},
      "narrow");
  graph["nodes"][5] = Call("add_.Tensor", {{"self", Named("narrow")}, {"other", {{"as_float", 2.0}}}}, "add_");
  graph["nodes"].push_back(Call("mul.Tensor", {{"self", Named("relu")}, {"other", Named("detach_")}}, "mul"));
  graph["tensor_values"]["narrow"] = graph["tensor_values"]["add_"] = Tensor({2});
  EXPECT_THAT(Text(model), HasSubstr("%narrow: float32[2] = aten.slice.Tensor(self=%detach_, dim=0, start=1, end=3)"));
  EXPECT_THAT(Text(model), HasSubstr("aten.slice_scatter.default(self=%detach_, src=%add_, dim=0, start=1, end=3)"));
  graph["nodes"][4]["inputs"][2]["arg"] = {{"as_int", -1}};
  EXPECT_THAT(Text(model), HasSubstr("aten.narrow.default (net.py:10): the argument start or length is no number"));
}

TEST(ImportProgram, AnEinsumIsTheOpsThatComputeIt) {
  json model = Linear();
  json& graph = GraphOf(model);
  json einsum =
      Call("einsum.default", {{"equation", {{"as_string", "bi,i->bi"}}}, {"tensors", json()}}, "einsum", "rope");
  einsum["inputs"][1]["arg"] = {{"as_tensors", json::array({{{"name", "relu"}}, {{"name", "p_b"}}})}};
  graph["nodes"].push_back(einsum);
  graph["tensor_values"]["einsum"] = Tensor({kBatch, 3});
  graph["outputs"][0] = Named("einsum");
  EXPECT_THAT(Text(model), HasSubstr("= aten.mul.Tensor(self=%relu, other=%"));
  EXPECT_THAT(Text(model), testing::Not(HasSubstr("aten.einsum")));
  graph["nodes"].back()["inputs"][0]["arg"] = {{"as_string", "bij,i->bi"}};
  EXPECT_EQ(Text(model),
            "aten.einsum.default of rope (net.py:10): its operand 0 has 2 dimensions; its equation names 3");
}

TEST(ImportProgram, AnUnknownOpIsNamedWithItsModuleAndTheUsersLine) {
  json model = Linear();
  GraphOf(model)["nodes"][1]["target"] = "torch.ops.aten.sort.default";
  const auto graph = Import(model);
  EXPECT_EQ(ReasonOf(graph.status()), "UNKNOWN_OP");
  EXPECT_EQ(graph.status().message(), "aten.sort.default of act (net.py:10) is not an op that models may use");
  GraphOf(model)["nodes"].push_back(GraphOf(model)["nodes"][1]);  // The same fault twice, which is reported once.
  GraphOf(model)["nodes"].push_back(Call("sym_size.int", {}, ""));
  GraphOf(model)["nodes"].back()["outputs"] = {{{"as_sym_int", {{"as_name", "n"}}}}};
  GraphOf(model)["nodes"].push_back(Call("topk.default", {}, "topk", "fc"));
  EXPECT_THAT(RefusedOps(ParseExportedModel(model.dump())->train),
              ElementsAre("aten.sort.default of act (net.py:10) is not an op that models may use",
                          "aten.topk.default of fc (net.py:10) is not an op that models may use"));
}

TEST(ImportProgram, WhatDoesNotHoldTogetherIsNamed) {
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["nodes"][1]["inputs"][0]["arg"] = Named("late"); }),
              HasSubstr("the tensor late is read before anything gives it"));
  EXPECT_THAT(Refused([](json& m) { std::swap(GraphOf(m)["nodes"][0], GraphOf(m)["nodes"][1]); }),
              HasSubstr("the tensor linear is read before"));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["nodes"].push_back(GraphOf(m)["nodes"][1]); }),
              HasSubstr("the tensor relu is computed twice"));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["tensor_values"].erase("relu"); }),
              HasSubstr("the tensor relu has no type"));
  EXPECT_THAT(Refused([](json& m) {
                GraphOf(m)["tensor_values"]["x"] = Tensor({8, 4});
              }),
              HasSubstr("export the model with a dynamic batch size"));
  EXPECT_THAT(Refused([](json& m) {
                GraphOf(m)["tensor_values"]["linear"] = Tensor({kBatch, "Symbol('s1')"});
              }),
              HasSubstr("linear has a size s1, which is no number and no multiple of the batch size"));
  EXPECT_THAT(Refused([](json& m) {
                GraphOf(m)["tensor_values"]["linear"] = Tensor({kBatch, "Add(1, 2)"});
              }),
              HasSubstr("a size Add(1, 2)"));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["outputs"] = json::array(); }), HasSubstr("no tensor as its output 0"));
}

// The arguments of the dropout call are in another order than in the op's schema.
TEST(ImportProgram, DropoutInPlaceKeepsItsInput) {
  json model = Linear();
  GraphOf(model)["nodes"][1] =
      Call("dropout_.default", {{"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", true}}}, {"self", Named("linear")}},
           "relu", "act");
  EXPECT_THAT(Text(model), HasSubstr("aten.dropout.default(p=0.5, train=True, input=%linear)  # act"));
}

TEST(ImportProgram, ALengthThatTheModelAssertsNotToHaveIsTheSpecs) {
  json model = Linear();
  json& graph = GraphOf(model);
  const std::string length = "Symbol('l', positive=True, integer=True)";
  graph["tensor_values"]["x"] = Tensor({kBatch, length});
  graph["sym_bool_values"]["ne"] = {
      {"as_expr", {{"expr_str", "Unequality(Mod(" + length + ", Integer(6)), Integer(0))"}}}};
  json asserts = Call("_assert_scalar.default", {{"self", {{"as_sym_bool", {{"as_name", "ne"}}}}}}, "");
  asserts["outputs"] = json::array();
  graph["nodes"].push_back(asserts);
  const auto exported = ParseExportedModel(model.dump());
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto reason = [&](int64_t sequence_length) {
    return ReasonOf(ImportProgram(*exported, exported->train, {.sequence_length = sequence_length}).status());
  };
  EXPECT_EQ(reason(6), "SPEC_ERROR");
  EXPECT_NE(reason(4), "SPEC_ERROR");
}

TEST(ImportProgram, ABroadcastThatChangesAShapeIsRefused) {
  json model = WithOwnLoss();
  GraphOf(model)["tensor_values"]["labels"] = Tensor({kBatch, 1});
  EXPECT_EQ(Text(model), "aten.broadcast_tensors.default (net.py:10) is not an op that models may use");
}

TEST(ImportProgram, ABroadcastsTensorsAreItsArgumentOfThatName) {
  json model = WithOwnLoss();
  json& broadcast = GraphOf(model)["nodes"][2];
  ASSERT_EQ(broadcast["target"], "torch.ops.aten.broadcast_tensors.default");
  const json other = {{"name", "other"}, {"arg", {{"as_int", 1}}}, {"kind", 1}};
  broadcast["inputs"].insert(broadcast["inputs"].begin(), other);
  EXPECT_EQ(Text(model), Text(WithOwnLoss()));
}

}  // namespace
}  // namespace ampd::graph
