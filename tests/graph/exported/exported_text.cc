#include "tests/graph/exported/exported_text.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ampd::graph {

json Size(const json& size) {
  return size.is_string() ? json{{"as_expr", {{"expr_str", size}, {"hint", nullptr}}}} : json{{"as_int", size}};
}

json Tensor(const std::vector<json>& sizes, bool trained, int dtype) {
  json list = json::array();
  json strides = json::array();
  int64_t stride = 1;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    list.insert(list.begin(), Size(*size));
    strides.insert(strides.begin(), Size(stride));
    stride *= size->is_number() ? size->get<int64_t>() : 1;
  }
  return {{"dtype", dtype},    {"sizes", list},      {"requires_grad", trained},
          {"device", nullptr}, {"strides", strides}, {"storage_offset", Size(0)},
          {"layout", 7}};
}

json Named(const std::string& tensor) { return {{"as_tensor", {{"name", tensor}}}}; }

json Call(const std::string& target, const std::vector<std::pair<std::string, json>>& arguments,
          const std::string& result, const std::string& module) {
  json inputs = json::array();
  for (const auto& [name, argument] : arguments) {
    inputs.push_back({{"name", name}, {"arg", argument}, {"kind", 1}});
  }
  return {{"target", "torch.ops.aten." + target},
          {"inputs", inputs},
          {"outputs", json::array({Named(result)})},
          {"metadata",
           {{"nn_module_stack", "L__self__,,net.Net;L__self__m," + module + ",torch.nn.Module"},
            {"stack_trace",
             "File \"/home/a/net.py\", line 10, in forward\n    y = f(x)\n  File "
             "\"/lib/site-packages/torch/nn/f.py\", line 7, in f"}}}};
}

json Input(const std::string& tensor) { return {{"user_input", {{"arg", Named(tensor)}}}}; }

json Parameter(const std::string& tensor, const std::string& name) {
  return {{"parameter", {{"arg", {{"name", tensor}}}, {"parameter_name", name}}}};
}

json Buffer(const std::string& tensor, const std::string& name) {
  return {{"buffer", {{"arg", {{"name", tensor}}}, {"buffer_name", name}, {"persistent", true}}}};
}

json Constant(const std::string& tensor, const std::string& name) {
  return {{"tensor_constant", {{"arg", {{"name", tensor}}}, {"tensor_constant_name", name}}}};
}

json Stored(const std::string& entry, const std::vector<json>& sizes, int dtype) {
  return {{"path_name", entry}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", Tensor(sizes, true, dtype)}};
}

json& GraphOf(json& model, const char* program) { return model["programs"][program]["graph_module"]["graph"]; }

json& InputsOf(json& model, const char* program) {
  return model["programs"][program]["graph_module"]["signature"]["input_specs"];
}

json WithOutputs(const std::vector<std::string>& tensors) {
  json outputs = json::array();
  json specs = json::array();
  for (const std::string& tensor : tensors) {
    outputs.push_back(Named(tensor));
    specs.push_back({{"user_output", {{"arg", Named(tensor)}}}});
  }
  const json graph = {{"inputs", json::array()},
                      {"outputs", outputs},
                      {"nodes", json::array()},
                      {"tensor_values", json::object()},
                      {"sym_int_values", json::object()}};
  const json signature = {{"input_specs", json::array()}, {"output_specs", specs}};
  const json program = {{"schema_version", {{"major", 8}, {"minor", 17}}},
                        {"graph_module", {{"graph", graph}, {"signature", signature}}}};
  return {{"format", "ampd.exported_model"},
          {"version", 1},
          {"weights", {{"config", json::object()}}},
          {"constants", {{"config", json::object()}}},
          {"programs", {{"train", program}}}};
}

void AddUserInput(json& model, const std::string& tensor, const std::vector<json>& sizes) {
  GraphOf(model)["inputs"].push_back(Named(tensor));
  GraphOf(model)["tensor_values"][tensor] = Tensor(sizes);
  InputsOf(model).push_back(Input(tensor));
}

void AddState(json& model, const json& input, const std::string& tensor, const std::string& name, const json& type,
              const json& stored) {
  GraphOf(model)["inputs"].push_back(Named(tensor));
  GraphOf(model)["tensor_values"][tensor] = type;
  InputsOf(model).push_back(input);
  model["weights"]["config"][name] = stored;
}

}  // namespace ampd::graph
