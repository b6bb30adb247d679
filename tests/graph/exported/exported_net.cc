#include "tests/graph/exported/exported_net.h"

#include <gtest/gtest.h>
#include <zip.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "graph/exported/exported_program.h"
#include "tests/graph/exported/exported_text.h"

namespace ampd::graph {

void AddCall(json& model, const std::string& target, const std::vector<std::pair<std::string, json>>& arguments,
             const std::string& result, const std::string& module, const std::string& type,
             const std::vector<json>& sizes) {
  json call = Call(target, arguments, result);
  std::string stack = "L__self__,,net.Net";
  for (size_t end = module.find('.'); !module.empty(); end = module.find('.', end + 1)) {
    const bool is_last = end == std::string::npos;
    stack += ";k," + module.substr(0, end) + "," + (is_last ? type : "torch.nn.modules.container.Sequential");
    if (is_last) {
      break;
    }
  }
  call["metadata"]["nn_module_stack"] = stack;
  json& graph = GraphOf(model);
  graph["nodes"].push_back(call);
  graph["tensor_values"][result] = Tensor(sizes);
}

void AddParameter(json& model, const std::string& tensor, const std::string& name, const std::vector<json>& sizes,
                  const std::string& entry) {
  AddState(model, Parameter(tensor, name), tensor, name, Tensor(sizes, /*trained=*/true),
           Stored(entry.empty() ? "weight_of_" + tensor : entry, sizes));
}

void AddBuffer(json& model, const std::string& tensor, const std::string& name, const std::vector<json>& sizes,
               int dtype) {
  AddState(model, Buffer(tensor, name), tensor, name, Tensor(sizes, /*trained=*/false, dtype),
           Stored("weight_of_" + tensor, sizes, dtype));
}

void AddLinear(json& model, const std::string& name, const std::string& path, const std::string& input,
               int64_t out_features, int64_t in_features) {
  AddParameter(model, name + "_w", path + ".weight", {out_features, in_features});
  AddParameter(model, name + "_b", path + ".bias", {out_features});
  AddCall(model, "linear.default",
          {{"input", Named(input)}, {"weight", Named(name + "_w")}, {"bias", Named(name + "_b")}}, name, path,
          "torch.nn.modules.linear.Linear", {kBatch, out_features});
}

void AddNorm(json& model, const std::string& input, const std::string& result, const std::string& module,
             const std::vector<json>& sizes) {
  const json yes = {{"as_bool", true}};
  AddCall(model, "batch_norm.default",
          {{"input", Named(input)},
           {"weight", Named("p_scale")},
           {"bias", Named("p_shift")},
           {"running_mean", Named("b_mean")},
           {"running_var", Named("b_var")},
           {"training", yes},
           {"momentum", {{"as_float", 0.1}}},
           {"eps", {{"as_float", 1e-5}}},
           {"cudnn_enabled", yes}},
          result, module, "torch.nn.modules.batchnorm.BatchNorm2d", sizes);
}

json Net() {
  json model = WithOutputs({"head", "flat"});
  AddParameter(model, "p_conv", "stem.0.weight", {8, 3, 3, 3});
  AddParameter(model, "p_scale", "stem.1.weight", {8});
  AddParameter(model, "p_shift", "stem.1.bias", {8});
  AddParameter(model, "p_unused", "unused", {3});
  AddBuffer(model, "b_mean", "stem.1.running_mean", {8});
  AddBuffer(model, "b_var", "stem.1.running_var", {8});
  AddBuffer(model, "b_count", "stem.1.num_batches_tracked", {}, kLong);
  AddBuffer(model, "b_calls", "calls", {}, kLong);
  AddUserInput(model, "x", {kBatch, 3, 8, 8});
  const std::vector<json> image = {kBatch, 8, 8, 8};
  const json yes = {{"as_bool", true}};
  const json ones = {{"as_ints", {1, 1}}};
  AddCall(model, "conv2d.default",
          {{"input", Named("x")},
           {"weight", Named("p_conv")},
           {"bias", {{"as_none", true}}},
           {"stride", ones},
           {"padding", ones}},
          "conv", "stem.0", "torch.nn.modules.conv.Conv2d", image);
  AddCall(model, "add_.Tensor", {{"self", Named("b_count")}, {"other", {{"as_int", 1}}}}, "count", "stem.1",
          "torch.nn.modules.batchnorm.BatchNorm2d", {});
  GraphOf(model)["tensor_values"]["count"] = Tensor({}, false, kLong);
  AddNorm(model, "conv", "norm", "stem.1", image);
  AddCall(model, "relu_.default", {{"self", Named("norm")}}, "relu", "stem.2", "torch.nn.modules.activation.ReLU",
          image);
  AddCall(model, "flatten.using_ints", {{"self", Named("relu")}, {"start_dim", {{"as_int", 1}}}}, "flat", "", "",
          {kBatch, 512});
  AddLinear(model, "first", "body.0", "flat", 32, 512);
  AddLinear(model, "second", "body.1", "first", 32, 32);
  AddCall(model, "dropout.default", {{"input", Named("second")}, {"p", {{"as_float", 0.5}}}, {"train", yes}}, "drop",
          "drop", "torch.nn.modules.dropout.Dropout", {kBatch, 32});
  AddCall(model, "add_.Tensor", {{"self", Named("b_calls")}, {"other", {{"as_int", 1}}}}, "called", "", "", {});
  GraphOf(model)["tensor_values"]["called"] = Tensor({}, false, kLong);
  AddLinear(model, "third", "body.2", "drop", 32, 32);
  AddLinear(model, "head", "head", "third", 10, 32);
  AddParameter(model, "p_tied", "tied", {10, 32}, "weight_of_head_w");
  GraphOf(model)["tensor_values"]["first_b"]["requires_grad"] = false;
  return model;
}

namespace {

// Adds a scalar constant and an op that combines the logits with it. The op's result becomes the program's output.
void AddConstant(json& model, const char* program, const std::string& op, const std::string& tensor,
                 const std::string& name) {
  json& graph = GraphOf(model, program);
  graph["inputs"].push_back(Named(tensor));
  graph["tensor_values"][tensor] = Tensor({});
  InputsOf(model, program).push_back(Constant(tensor, name));
  graph["nodes"].push_back(Call(op + ".Tensor", {{"self", graph["outputs"][0]}, {"other", Named(tensor)}}, op));
  graph["tensor_values"][op] = Tensor({kBatch, 10});
  graph["outputs"][0] = Named(op);
}

}  // namespace

json WithInlineConstants() {
  json model = Net();
  model["programs"]["eval"] = model["programs"]["train"];
  AddConstant(model, "train", "mul", "c_lifted_tensor_0", "lifted_tensor_0");
  AddConstant(model, "train", "div", "c_lifted_tensor_1", "lifted_tensor_1");
  AddConstant(model, "eval", "div", "c_lifted_tensor_0", "lifted_tensor_0");
  model["constants"]["config"] = {{"lifted_tensor_0", Stored("tensor_0", {})},
                                  {"lifted_tensor_1", Stored("tensor_1", {})}};
  model["eval_constants"]["config"] = {{"lifted_tensor_0", Stored("tensor_2", {})}};
  return model;
}

namespace {

// Returns the content of every tensor of the model, by archive entry.
std::map<std::string, std::string> ContentsOf(const json& model, const std::map<std::string, std::string>& constants) {
  constexpr int64_t kMostBytes = int64_t{80} << 20;
  std::map<std::string, std::string> contents;
  for (const auto& [name, content] : constants) {
    if (!content.empty()) {
      contents["data/constants/" + name] = content;
    }
  }
  const auto read = ParseExportedModel(model.dump());
  for (const auto& [name, tensor] : read.ok() ? read->state : std::map<std::string, StoredTensor>()) {
    const int64_t num_bytes = ReachOf(tensor) * ItemSizeBytes(tensor.dtype);
    if (num_bytes <= kMostBytes) {
      contents.try_emplace(tensor.entry, static_cast<size_t>(num_bytes), '\0');
    }
  }
  return contents;
}

}  // namespace

void WriteArchive(const std::string& path, const json& model, const std::map<std::string, std::string>& contents) {
  std::vector<std::pair<std::string, std::string>> entries = {
      {"archive_format", "pt2"}, {"archive_version", "0"}, {"byteorder", "little"}};
  for (const auto& [name, program] : model["programs"].items()) {
    entries.emplace_back("models/" + name + ".json", program.dump());
    entries.emplace_back("data/weights/" + name + "_weights_config.json", model["weights"].dump());
    const char* const constants = name == "eval" && model.contains("eval_constants") ? "eval_constants" : "constants";
    entries.emplace_back("data/constants/" + name + "_constants_config.json", model[constants].dump());
  }
  for (const auto& [name, content] : ContentsOf(model, contents)) {
    entries.emplace_back(name, content);
  }
  if (model.contains("twin")) {
    entries.emplace_back("extra/ampd.bf16_twin.json", model["twin"].dump());
  }
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, content] : entries) {
    zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const int64_t index = zip_file_add(archive, ("net/" + name).c_str(), source, 0);
    ASSERT_GE(index, 0);
    const bool is_large = content.size() > (1 << 20);
    ASSERT_EQ(zip_set_file_compression(archive, index, is_large ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

}  // namespace ampd::graph
