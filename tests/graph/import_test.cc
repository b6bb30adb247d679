#include "graph/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/exported_program.h"
#include "graph/print.h"
#include "tests/graph/exported_text.h"

namespace ampd::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// relu(x W^T + b), x: (B, 4), W: (3, 4).
json Linear() {
  const json graph = {
      {"inputs", json::array({Named("p_w"), Named("p_b"), Named("x")})},
      {"outputs", json::array({Named("relu")})},
      {"nodes",
       json::array({Call("linear.default", {{"input", Named("x")}, {"weight", Named("p_w")}, {"bias", Named("p_b")}},
                         "linear", "fc"),
                    Call("relu.default", {{"self", Named("linear")}}, "relu", "act")})},
      {"tensor_values",
       {{"p_w", Tensor({3, 4}, true)},
        {"p_b", Tensor({3}, true)},
        {"x", Tensor({kBatch, 4})},
        {"linear", Tensor({kBatch, 3})},
        {"relu", Tensor({kBatch, 3})}}},
      {"sym_int_values", json::object()}};
  const json program = {
      {"schema_version", {{"major", 8}, {"minor", 17}}},
      {"graph_module",
       {{"graph", graph},
        {"signature",
         {{"input_specs", json::array({Parameter("p_w", "fc.weight"), Parameter("p_b", "fc.bias"), Input("x")})},
          {"output_specs", json::array({{{"user_output", {{"arg", Named("relu")}}}}})}}}}}};
  return {{"format", "ampd.exported_model"},
          {"version", 1},
          {"weights", {{"config", {{"fc.weight", Stored("weight_0", {3, 4})}, {"fc.bias", Stored("weight_1", {3})}}}}},
          {"constants", {{"config", json::object()}}},
          {"programs", {{"train", program}}}};
}

absl::StatusOr<Graph> Import(const json& model) {
  auto exported = ParseExportedModel(model.dump());
  return exported.ok() ? ImportProgram(*exported, exported->train) : exported.status();
}

std::string Text(const json& model) {
  const auto graph = Import(model);
  return graph.ok() ? ToText(*graph) : std::string(graph.status().message());
}

// The message for the model with a change.
std::string Refused(const std::function<void(json&)>& change) {
  json model = Linear();
  change(model);
  const auto graph = Import(model);
  EXPECT_EQ(ReasonOf(graph.status()), "BAD_EXPORT") << graph.status();
  return std::string(graph.status().message());
}

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

TEST(ImportProgram, ACastToAnothersDtypeIsACast) {
  json model = Linear();
  GraphOf(model)["tensor_values"]["relu"] = Tensor({kBatch, 3}, false, kLong);
  GraphOf(model)["nodes"][1] = Call("type_as.default", {{"self", Named("linear")}, {"other", Named("linear")}}, "relu");
  EXPECT_THAT(Text(model), HasSubstr("%relu: int64[B, 3] = aten.to.dtype(self=%linear, dtype=int64)\n"));
}

// The relu in a graph of its own, whose names are those of the outer one too. `front`: arguments in front of the graph.
json Nested(const std::string& op, const std::vector<json>& front) {
  json model = Linear();
  json& graph = GraphOf(model);
  const json inner = {{"inputs", json::array({Named("a")})},
                      {"outputs", json::array({Named("relu")})},
                      {"nodes", json::array({Call("relu.default", {{"self", Named("a")}}, "relu", "act")})},
                      {"tensor_values", {{"a", Tensor({kBatch, 3})}, {"relu", Tensor({kBatch, 3})}}},
                      {"sym_int_values", json::object()}};
  std::vector<std::pair<std::string, json>> arguments;
  for (const json& one : front) {
    arguments.emplace_back("", one);
  }
  arguments.emplace_back("", json{{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}});
  arguments.emplace_back("", Named("linear"));
  graph["nodes"][1] = Call("", arguments, "relu", "act");
  graph["nodes"][1]["target"] = "torch.ops.higher_order." + op;
  return model;
}

const json kOff = {{"as_bool", false}};
const json kOn = {{"as_bool", true}};

TEST(ImportProgram, WhatRanWithoutGradientsHasNoneBehindIt) {
  EXPECT_THAT(Text(Nested("wrap_with_set_grad_enabled", {kOff})),
              HasSubstr("%graph_1.relu: float32[B, 3] = aten.relu.default(self=%linear)  # act\n"
                        "%relu: float32[B, 3] = aten.detach.default(self=%graph_1.relu)  # act\n"));
  EXPECT_THAT(Text(Nested("wrap_with_set_grad_enabled", {kOn})), HasSubstr("output logits = %graph_1.relu\n"));
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

// A second input, which is added to the output.
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

TEST(ImportProgram, CountsOfBatchesThatNothingReadsAreLeftOut) {
  json model = Linear();
  AddState(model, Buffer("b_n", "bn.num_batches_tracked"), "b_n", "bn.num_batches_tracked", Tensor({}, false, kLong),
           Stored("weight_2", {}, kLong));
  json& graph = GraphOf(model);
  graph["tensor_values"]["add_"] = Tensor({}, false, kLong);
  graph["nodes"].push_back(Call("add_.Tensor", {{"self", Named("b_n")}, {"other", {{"as_int", 1}}}}, "add_"));
  ASSERT_TRUE(Import(model).ok()) << Import(model).status();
  EXPECT_TRUE(Import(model)->buffers().empty());
  EXPECT_EQ(Import(model)->nodes().size(), 2u);
  graph["outputs"].push_back(Named("add_"));
  EXPECT_THAT(std::string(Import(model).status().message()), HasSubstr("writes a parameter or a buffer"));
}

TEST(ImportProgram, OpsThatWriteInPlaceBecomeThoseThatDoNot) {
  json model = Linear();
  GraphOf(model)["nodes"][1]["target"] = "torch.ops.aten.relu_.default";
  EXPECT_THAT(Text(model), HasSubstr("aten.relu.default(self=%linear)"));
}

TEST(ImportProgram, AnUnknownOpIsNamedWithItsModuleAndTheUsersLine) {
  json model = Linear();
  GraphOf(model)["nodes"][1]["target"] = "torch.ops.aten.sort.default";
  const auto graph = Import(model);
  EXPECT_EQ(ReasonOf(graph.status()), "UNKNOWN_OP");
  EXPECT_EQ(graph.status().message(), "aten.sort.default of act (net.py:10) is not an op that models may use");
  GraphOf(model)["nodes"].push_back(GraphOf(model)["nodes"][1]);  // named once
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

// What the engine takes for granted of a call (graph/call_rules.h).
TEST(ImportProgram, ACallThatItsOpCantTakeIsNamed) {
  EXPECT_EQ(Refused([](json& m) { GraphOf(m)["nodes"][0]["inputs"].erase(1); }),
            "aten.linear.default of fc (net.py:10): it has no tensor as its weight");
  EXPECT_EQ(Refused([](json& m) { GraphOf(m)["nodes"][0]["inputs"][1]["arg"] = Named("p_b"); }),
            "aten.linear.default of fc (net.py:10): its weight has 1 dimensions; it takes 2");
  EXPECT_EQ(Refused([](json& m) {
              GraphOf(m)["nodes"][1] = Call("max_pool2d.default", {{"self", Named("linear")}}, "relu", "act");
            }),
            "aten.max_pool2d.default of act (net.py:10): its self has 2 dimensions; it takes 3 to 4");
  EXPECT_EQ(Refused([](json& m) {
              GraphOf(m)["tensor_values"]["relu"] = Tensor({kBatch});
              GraphOf(m)["nodes"][1] = Call("batch_norm.default", {{"input", Named("linear")}}, "relu", "act");
            }),
            "aten.batch_norm.default of act (net.py:10): its result has 1 dimensions; it takes at least 2");
  EXPECT_EQ(Refused([](json& m) {
              GraphOf(m)["tensor_values"]["linear"] = GraphOf(m)["tensor_values"]["relu"] = Tensor({kBatch, 3, 3});
              GraphOf(m)["nodes"][1] = Call(
                  "gru.input", {{"input", Named("linear")}, {"num_layers", {{"as_int", int64_t{1} << 40}}}}, "relu");
            }),
            "aten.gru.input (net.py:10): its num_layers is 1099511627776; it takes 1 to 4096");
}

// Its arguments in another order than the schema's.
TEST(ImportProgram, DropoutInPlaceKeepsItsInput) {
  json model = Linear();
  GraphOf(model)["nodes"][1] =
      Call("dropout_.default", {{"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", true}}}, {"self", Named("linear")}},
           "relu", "act");
  EXPECT_THAT(Text(model), HasSubstr("aten.dropout.default(p=0.5, train=True, input=%linear)  # act"));
}

TEST(ImportPrograms, BothHaveAHeadAndSomethingToTrain) {
  const auto imported = [](const json& model, const ImportOptions& options) {
    return ImportPrograms(*ParseExportedModel(model.dump()), options);
  };
  ASSERT_TRUE(imported(Linear(), {}).ok()) << imported(Linear(), {}).status();
  EXPECT_TRUE(imported(Linear(), {.head = Head::kClassification}).ok());
  const absl::Status other = imported(Linear(), {.head = Head::kLanguageModel}).status();
  EXPECT_EQ(ReasonOf(other), "SPEC_ERROR");
  EXPECT_EQ(other.message(),
            "model.exported.output 0 is float32[B, 3]; the head LANGUAGE_MODEL takes float32[B, positions, "
            "vocabulary]");
  EXPECT_EQ(imported(Linear(), {.head = Head::kOwnLoss}).status().message(),
            "model.exported.output 0 is float32[B, 3]; the head OWN_LOSS takes a scalar, float32[]");
  for (const auto& [head, name] : {std::pair(Head::kRegression, "predictions"), {Head::kMultiLabel, "label_logits"}}) {
    const auto programs = imported(Linear(), {.head = head});
    ASSERT_TRUE(programs.ok()) << programs.status();
    EXPECT_TRUE(programs->train.FindOutput(name).has_value());
    EXPECT_EQ(HeadOf(programs->eval), head);
  }
  json frozen = Linear();
  for (const char* tensor : {"p_w", "p_b"}) {
    GraphOf(frozen)["tensor_values"][tensor]["requires_grad"] = false;
  }
  EXPECT_EQ(imported(frozen, {}).status().message(), "the exported model has no parameter that requires a gradient");
}

// The layer with its own loss against labels.
json WithOwnLoss() {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["inputs"].push_back(Named("labels"));
  InputsOf(model).push_back(Input("labels"));
  graph["tensor_values"]["labels"] = Tensor({kBatch, 3});
  json broadcast = Call("broadcast_tensors.default",
                        {{"tensors", {{"as_tensors", json::array({{{"name", "relu"}}, {{"name", "labels"}}})}}}}, "");
  broadcast["outputs"] = json::array({{{"as_tensors", json::array({{{"name", "one"}}, {{"name", "other"}}})}}});
  graph["nodes"].push_back(broadcast);
  graph["tensor_values"]["one"] = graph["tensor_values"]["other"] = Tensor({kBatch, 3});
  graph["nodes"].push_back(Call("mse_loss.default", {{"self", Named("one")}, {"target", Named("other")}}, "mse"));
  graph["tensor_values"]["mse"] = Tensor({});
  graph["outputs"] = json::array({Named("mse"), Named("relu")});
  model["programs"]["train"]["graph_module"]["signature"]["output_specs"] =
      json::array({{{"user_output", {{"arg", Named("mse")}}}}, {{"user_output", {{"arg", Named("relu")}}}}});
  return model;
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

TEST(ImportPrograms, AScalarIsTheModelsOwnLossWhereItIsCalledSo) {
  const InputNames names = {{"x", "images"}};
  const auto imported = [](const ImportOptions& options) {
    return ImportPrograms(*ParseExportedModel(WithOwnLoss().dump()), options);
  };
  const auto programs = imported({.head = Head::kOwnLoss, .inputs = names});
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(HeadOf(programs->train), Head::kOwnLoss);
  EXPECT_EQ(programs->train.value(programs->train.inputs()[1]).name, "labels");
  EXPECT_THAT(ToText(programs->train), HasSubstr("aten.mse_loss.default(self=%relu, target=%labels)"));
  EXPECT_EQ(imported({.inputs = names}).status().message(),
            "model.exported.output 0 is float32[]; without model.exported.head it is float32[B, classes] or "
            "float32[B, positions, vocabulary]; model.exported.head OWN_LOSS takes a scalar, float32[]");
  const absl::Status other = imported({.output = 1, .inputs = names}).status();
  EXPECT_EQ(ReasonOf(other), "SPEC_ERROR");
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("the model takes labels, which the head CLASSIFICATION compares with its output; set "
                        "model.exported.head to OWN_LOSS"));
}

TEST(HeadOf, IsToldByTheShapeAndTheDtype) {
  EXPECT_EQ(HeadOf({Dtype::kFloat32, {Dim::Batch(), 10}}), Head::kClassification);
  EXPECT_EQ(HeadOf({Dtype::kFloat32, {Dim::Batch(), 16, 50}}), Head::kLanguageModel);
  for (const TensorType& type :
       {TensorType{Dtype::kFloat32, {}}, TensorType{Dtype::kFloat32, {Dim::Batch()}},
        TensorType{Dtype::kBFloat16, {Dim::Batch(), 10}}, TensorType{Dtype::kFloat32, {4, 10}},
        TensorType{Dtype::kFloat32, {Dim::Batch(2), 10}}, TensorType{Dtype::kFloat32, {Dim::Batch(), Dim::Batch()}},
        TensorType{Dtype::kFloat32, {Dim::Batch(), 3, 8, 8}}}) {
    EXPECT_EQ(HeadOf(type), std::nullopt) << ToText(type);
  }
}

TEST(ParseExportedModel, WhatIsNotTorchExportsIsNamedWithItsPlace) {
  EXPECT_EQ(Refused([](json& m) { m["programs"]["train"]["schema_version"]["major"] = 9; }),
            "programs.train.schema_version: is 9; this build reads 8, that of torch 2.11");
  EXPECT_THAT(Refused([](json& m) { m["version"] = 2; }), HasSubstr("format: is not ampd.exported_model, version 1"));
  EXPECT_THAT(Refused([](json& m) {
                GraphOf(m)["nodes"][0]["inputs"][0]["arg"] = {{"as_custom_obj", 1}};
              }),
              HasSubstr("nodes[0].inputs[0].arg.as_custom_obj: is an argument of the kind \"as_custom_obj\""));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["nodes"][0]["inputs"][0]["arg"] = json::object(); }),
              HasSubstr("has not one member"));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["tensor_values"]["x"]["dtype"] = 9; }),
              HasSubstr("tensor_values.x.dtype: is dtype 9 of torch.export"));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m)["tensor_values"]["p_w"]["sizes"][0]["as_int"] = -1; }),
              HasSubstr("is no size"));
  EXPECT_THAT(Refused([](json& m) { GraphOf(m).erase("nodes"); }), HasSubstr("graph: has no \"nodes\""));
  EXPECT_THAT(Refused([](json& m) {
                InputsOf(m)[2] = {{"token", {{"arg", {{"name", "x"}}}}}};
              }),
              HasSubstr("an input of the kind \"token\""));
  EXPECT_EQ(Refused([](json& m) { InputsOf(m).erase(2); }), "the inputs of the program are not those of its signature");
}

TEST(ParseExportedModel, StoredTensorsAreDataWithinBounds) {
  const auto with = [](const std::function<void(json&)>& change) {
    return Refused([&](json& m) { change(m["weights"]["config"]["fc.weight"]); });
  };
  EXPECT_THAT(with([](json& s) { s["use_pickle"] = true; }), HasSubstr("is pickled"));
  EXPECT_THAT(with([](json& s) { s["path_name"] = "../weight_0"; }), HasSubstr("leads out of its folder"));
  EXPECT_THAT(with([](json& s) { s["tensor_meta"]["sizes"][0] = Size(5); }), HasSubstr("of another shape or dtype"));
  EXPECT_THAT(with([](json& s) { s["tensor_meta"]["strides"][0] = Size(int64_t{1} << 39); }), HasSubstr("too large"));
  EXPECT_THAT(with([](json& s) { s["tensor_meta"]["strides"][0] = Size(0); }), HasSubstr("too large"))
      << "12 numbers of 4";
  EXPECT_THAT(with([](json& s) { s["tensor_meta"]["strides"] = json::array(); }), HasSubstr("do not fit together"));
  EXPECT_THAT(with([](json& s) { s["tensor_meta"]["storage_offset"] = Size(int64_t{1} << 39); }),
              HasSubstr("too large"));
  EXPECT_EQ(Refused([](json& m) { m["weights"]["config"].erase("fc.bias"); }), "the tensor fc.bias is missing");
}

TEST(ParseExportedModel, WhatIsNoJsonIsRefused) {
  for (const std::string& text : {std::string(), std::string("{"), std::string(100, '['), Linear().dump() + "}",
                                  std::string("{\"a\": \"\xff\"}")}) {
    EXPECT_EQ(ParseExportedModel(text).status().message(), "the JSON is not sound") << text;
  }
}

TEST(ParseExportedModel, TellsTheTypesOfModules_OfGraphsWithinToo) {
  json model = Nested("wrap_with_set_grad_enabled", {kOff});
  json& graph = GraphOf(model);
  graph["nodes"][0]["metadata"]["nn_module_stack"] = "k,,net.Net;k,blocks.0@1,net.Block;k,blocks.0.fc,net.Layer";
  const auto exported = ParseExportedModel(model.dump());
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_THAT(exported->train.graph.module_types,
              ElementsAre(testing::Pair("", "net.Net"), testing::Pair("act", "torch.nn.Module"),
                          testing::Pair("blocks.0", "net.Block"), testing::Pair("blocks.0.fc", "net.Layer")));
}

TEST(ParseExportedModel, KeepsItsJson) {
  const std::string text = Linear().dump();
  EXPECT_EQ(ParseExportedModel(text)->json, text);
}

// A dropout in front of the output.
json WithDropout(bool train) {
  json model = Linear();
  json& graph = GraphOf(model);
  graph["tensor_values"]["dropout"] = Tensor({kBatch, 3});
  graph["outputs"][0] = Named("dropout");
  graph["nodes"].push_back(Call("dropout.default",
                                {{"input", Named("relu")}, {"p", {{"as_float", 0.5}}}, {"train", {{"as_bool", train}}}},
                                "dropout"));
  return model;
}

TEST(ImportEvalProgram, ALoneProgramIsTurnedOverAndAnOwnOneIsTaken) {
  json model = WithDropout(true);
  auto exported = ParseExportedModel(model.dump());
  EXPECT_THAT(ToText(*ImportProgram(*exported, exported->train)), HasSubstr("aten.dropout.default"));
  const Graph turned = ImportEvalProgram(*exported).value();
  EXPECT_THAT(ToText(turned), HasSubstr("output logits = %relu"));
  EXPECT_THAT(ToText(turned), testing::Not(HasSubstr("dropout")));
  model["programs"]["eval"] = model["programs"]["train"];
  GraphOf(model, "eval")["outputs"][0] = Named("linear");
  exported = ParseExportedModel(model.dump());
  EXPECT_THAT(ToText(*ImportEvalProgram(*exported)), HasSubstr("output logits = %linear"));
}

TEST(ImportEvalProgram, HasTheStateOfTheTrainingProgram) {
  json model = Linear();
  AddState(model, Buffer("b_n", "bn.num_batches_tracked"), "b_n", "bn.num_batches_tracked", Tensor({}, false, kLong),
           Stored("weight_2", {}, kLong));
  model["programs"]["eval"] = model["programs"]["train"];  // which reads the count no more than it writes it
  json& graph = GraphOf(model);
  graph["tensor_values"]["add_"] = Tensor({}, false, kLong);
  graph["nodes"].push_back(Call("add_.Tensor", {{"self", Named("b_n")}, {"other", {{"as_int", 1}}}}, "add_"));
  const auto exported = ParseExportedModel(model.dump());
  const Graph eval = ImportEvalProgram(*exported).value();
  EXPECT_TRUE(eval.buffers().empty());
  EXPECT_EQ(eval.parameters().size(), 2u);
}

TEST(IsEvalMode, IsToldByDropoutAndNorms) {
  EXPECT_FALSE(IsEvalMode(*Import(Linear())));
  EXPECT_FALSE(IsEvalMode(*Import(WithDropout(true))));
  EXPECT_TRUE(IsEvalMode(*Import(WithDropout(false))));
}

}  // namespace
}  // namespace ampd::graph
