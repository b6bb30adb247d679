#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "graph/exported/exported_program.h"
#include "tests/graph/exported/exported_linear.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const json kFalse = {{"as_bool", false}};

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

TEST(ParseExportedModel, AConstantOfEvaluationIsNoOtherTensor) {
  json model = WithInlineConstants();
  model["weights"]["config"]["lifted_tensor_0@eval"] = Stored("weight_9", {});
  EXPECT_EQ(ParseExportedModel(model.dump()).status().message(),
            "eval_constants: is to be called lifted_tensor_0@eval, the name of another tensor");
  model = WithInlineConstants();
  const std::string name(252, 'c');
  model["eval_constants"]["config"] = {{name, Stored("tensor_2", {})}};
  EXPECT_THAT(std::string(ParseExportedModel(model.dump()).status().message()),
              HasSubstr("has no name of 1 to 224 bytes"));
}

TEST(ParseExportedModel, WhatIsNoJsonIsRefused) {
  for (const std::string& text : {std::string(), std::string("{"), std::string(100, '['), Linear().dump() + "}",
                                  std::string("{\"a\": \"\xff\"}")}) {
    EXPECT_EQ(ParseExportedModel(text).status().message(), "the JSON is not sound") << text;
  }
}

TEST(ParseExportedModel, TellsTheTypesOfModules_OfGraphsWithinToo) {
  json model = Nested("wrap_with_set_grad_enabled", {kFalse});
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

}  // namespace
}  // namespace ampd::graph
