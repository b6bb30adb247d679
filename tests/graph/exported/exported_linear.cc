#include "tests/graph/exported/exported_linear.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "graph/exported/import.h"
#include "graph/print.h"
#include "tests/graph/exported/exported_text.h"

namespace ampd::graph {

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

absl::StatusOr<Graph> Import(const json& model) {
  auto exported = ParseExportedModel(model.dump());
  return exported.ok() ? ImportProgram(*exported, exported->train) : exported.status();
}

std::string Text(const json& model) {
  const auto graph = Import(model);
  return graph.ok() ? ToText(*graph) : std::string(graph.status().message());
}

std::string Refused(const std::function<void(json&)>& change) {
  json model = Linear();
  change(model);
  const auto graph = Import(model);
  EXPECT_EQ(ReasonOf(graph.status()), "BAD_EXPORT") << graph.status();
  return std::string(graph.status().message());
}

}  // namespace ampd::graph
