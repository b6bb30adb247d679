// Tests how the bfloat16 twin of an exported model is read, and how the import of the model uses it. The twin is the
// same model exported in bfloat16. A comparison of the two shows which dtypes the model asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "graph/print.h"
#include "tests/graph/exported/exported_text.h"

namespace ampd::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

json Float32() { return {{"as_scalar_type", kFloat}}; }

// Returns the program y = w * (zeros * relu(x.float()).to(x.dtype)), x: (B, 4).
json TwinProgram() {
  const json sizes = {{"as_ints", {4}}};
  const json graph = {
      {"inputs", json::array({Named("p_w"), Named("x")})},
      {"outputs", json::array({Named("mul")})},
      {"nodes", json::array({Call("to.dtype", {{"self", Named("x")}, {"dtype", Float32()}}, "to", "norm"),
                             Call("relu.default", {{"self", Named("to")}}, "relu", "norm"),
                             Call("to.dtype", {{"self", Named("relu")}, {"dtype", Float32()}}, "to_1", "norm"),
                             Call("zeros.default", {{"size", sizes}, {"dtype", Float32()}}, "zeros", "noise"),
                             Call("mul.Tensor", {{"self", Named("to_1")}, {"other", Named("zeros")}}, "mul_1", "noise"),
                             Call("mul.Tensor", {{"self", Named("mul_1")}, {"other", Named("p_w")}}, "mul")})},
      {"tensor_values",
       {{"p_w", Tensor({4}, true)},
        {"x", Tensor({kBatch, 4})},
        {"to", Tensor({kBatch, 4})},
        {"relu", Tensor({kBatch, 4})},
        {"to_1", Tensor({kBatch, 4})},
        {"zeros", Tensor({4})},
        {"mul_1", Tensor({kBatch, 4})},
        {"mul", Tensor({kBatch, 4})}}},
      {"sym_int_values", json::object()}};
  return {{"schema_version", {{"major", 8}, {"minor", 17}}},
          {"graph_module",
           {{"graph", graph},
            {"signature",
             {{"input_specs", json::array({Parameter("p_w", "w"), Input("x")})},
              {"output_specs", json::array({{{"user_output", {{"arg", Named("mul")}}}}})}}}}}};
}

json Model() {
  return {{"format", "ampd.exported_model"},
          {"version", 1},
          {"weights", {{"config", {{"w", Stored("weight_0", {4})}}}}},
          {"constants", {{"config", json::object()}}},
          {"programs", {{"train", TwinProgram()}}}};
}

json WithTwin(const json& meant, const json& follows) {
  json model = Model();
  model["twin"] = {{"format", "ampd.bf16_twin"},
                   {"version", 1},
                   {"programs", {{"train", {{"meant", meant}, {"follows", follows}}}}}};
  return model;
}

json Sound() { return WithTwin({"to"}, {"to_1", "zeros"}); }

std::string Text(const json& model) {
  const auto exported = ParseExportedModel(model.dump());
  const auto graph =
      exported.ok() ? ImportProgram(*exported, exported->train) : absl::StatusOr<Graph>(exported.status());
  return graph.ok() ? ToText(*graph) : std::string(graph.status().message());
}

TEST(Twin, WhatIsMeantAndWhatFollowsIsKept) {
  EXPECT_THAT(Text(Sound()),
              HasSubstr("%to: float32[B, 4] = aten.to.dtype(self=%images, dtype=float32)  # norm (fp32)\n"
                        "%relu: float32[B, 4] = aten.relu.default(self=%to)  # norm\n"
                        "%to_1: float32[B, 4] = aten.to.dtype(self=%relu, dtype=float32)  # norm (follows)\n"
                        "%zeros: float32[4] = aten.zeros.default(size=[4], dtype=float32)  # noise (follows)\n"
                        "%mul_1: float32[B, 4] = aten.mul.Tensor(self=%to_1, other=%zeros)  # noise\n"));
}

TEST(Twin, WithoutItCastsToTheDtypeThatIsThereAreLeftOut) {
  const std::string text = Text(Model());
  EXPECT_THAT(text, HasSubstr("%relu: float32[B, 4] = aten.relu.default(self=%images)  # norm\n"));
  EXPECT_THAT(text, HasSubstr("dtype=float32)  # noise\n"));
  EXPECT_THAT(text, Not(HasSubstr("aten.to.dtype")));
  EXPECT_EQ(Text(WithTwin(json::array(), json::array())), text) << "which names nothing";
}

TEST(Twin, ACastByAnotherNameIsKeptToo) {
  for (const char* op : {"to.dtype_layout", "to.device", "_to_copy.default"}) {
    json model = Sound();
    GraphOf(model)["nodes"][0]["target"] = std::string("torch.ops.aten.") + op;
    EXPECT_EQ(Text(model), Text(Sound())) << op;
  }
  json model = Sound();
  GraphOf(model)["nodes"][0] = Call("type_as.default", {{"self", Named("x")}, {"other", Named("p_w")}}, "to", "norm");
  EXPECT_EQ(Text(model), Text(Sound()));
}

TEST(Twin, NamesNodesOfGraphsWithinAsTheyAreCalledWhenTheseAreTakenApart) {
  json model = Sound();
  json& graph = GraphOf(model);
  const json inner = {
      {"inputs", json::array({Named("a")})},
      {"outputs", json::array({Named("to")})},
      {"nodes", json::array({Call("to.dtype", {{"self", Named("a")}, {"dtype", Float32()}}, "to", "norm")})},
      {"tensor_values", {{"a", Tensor({kBatch, 4})}, {"to", Tensor({kBatch, 4})}}},
      {"sym_int_values", json::object()}};
  graph["nodes"][0] = Call(
      "", {{"", {{"as_bool", true}}}, {"", {{"as_graph", {{"name", "submod_1"}, {"graph", inner}}}}}, {"", Named("x")}},
      "to");
  graph["nodes"][0]["target"] = "torch.ops.higher_order.wrap_with_set_grad_enabled";
  model["twin"]["programs"]["train"]["meant"] = {"graph_1.to"};
  EXPECT_THAT(Text(model),
              HasSubstr("%graph_1.to: float32[B, 4] = aten.to.dtype(self=%images, dtype=float32)  # norm (fp32)\n"));
}

TEST(Twin, TellsOfEachProgramByItsOwn) {
  json model = Sound();
  model["programs"]["eval"] = TwinProgram();
  EXPECT_EQ(Text(model), "twin.programs: has no \"eval\"");
  model["twin"]["programs"]["eval"] = {{"meant", json::array()}, {"follows", {"zeros"}}};
  const auto exported = ParseExportedModel(model.dump());
  ASSERT_TRUE(exported.ok()) << exported.status();
  const std::string eval = ToText(ImportEvalProgram(*exported).value());
  EXPECT_THAT(eval, HasSubstr("# noise (follows)"));
  EXPECT_THAT(eval, Not(HasSubstr("aten.to.dtype")));
  EXPECT_EQ(ParseExportedModel(exported->json)->json, model.dump()) << "what a checkpoint keeps";
}

// Applies `change` to the bfloat16 twin (the second program that a file may hold, traced in bfloat16) of a sound model.
// Returns the message with which the import refuses the model.
std::string Refused(const std::function<void(json&)>& change) {
  json model = Sound();
  change(model["twin"]);
  const auto exported = ParseExportedModel(model.dump());
  EXPECT_EQ(ReasonOf(exported.status()), "BAD_EXPORT") << exported.status();
  return std::string(exported.status().message());
}

TEST(Twin, AHostileOneIsRefusedInOneLine) {
  const auto of_train = [](const std::function<void(json&)>& change) {
    return Refused([&](json& twin) { change(twin["programs"]["train"]); });
  };
  EXPECT_EQ(Refused([](json& twin) { twin["version"] = 2; }), "twin.format: is not ampd.bf16_twin, version 1");
  EXPECT_EQ(Refused([](json& twin) { twin["format"] = "other"; }), "twin.format: is not ampd.bf16_twin, version 1");
  EXPECT_EQ(Refused([](json& twin) { twin = json::array(); }), "twin: has no \"format\"");
  EXPECT_EQ(Refused([](json& twin) { twin.erase("programs"); }), "twin: has no \"programs\"");
  EXPECT_EQ(of_train([](json& p) { p["meant"] = "to"; }),
            "twin.programs.train.meant: is no list of at most 100000 elements");
  EXPECT_EQ(of_train([](json& p) { p["follows"].push_back(3); }), "twin.programs.train.follows[2]: is no string");
  EXPECT_EQ(of_train([](json& p) { p["follows"].push_back("zeros"); }),
            "twin.programs.train.follows[2]: is there twice");
  EXPECT_EQ(of_train([](json& p) { p["meant"].push_back("zeros"); }),
            "the bfloat16 twin says of zeros that its dtype is meant, and that it follows");
  for (const char* tensor : {"nothing", "x", "p_w"}) {
    EXPECT_EQ(of_train([&](json& p) { p["meant"].push_back(tensor); }),
              std::string("the bfloat16 twin names ") + tensor +
                  ", which is no float32 tensor that a node of the program gives");
  }
  EXPECT_EQ(of_train([](json& p) { p["meant"] = json(json::array_t(100'001, "to")); }),
            "twin.programs.train.meant: is no list of at most 100000 elements");
}

}  // namespace
}  // namespace ampd::graph
