#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

// Builders for the JSON that torch.export writes and that ParseExportedModel reads.
namespace ampd::graph {

using nlohmann::json;

inline constexpr int kFloat = 7;
inline constexpr int kLong = 5;
inline constexpr char kBatch[] = "Symbol('s77', positive=True, integer=True)";

// Returns the JSON of a tensor's size along one dimension. `size`: a number, or the text of a symbolic expression.
json Size(const json& size);

json Tensor(const std::vector<json>& sizes, bool trained = false, int dtype = kFloat);

json Named(const std::string& tensor);

json Call(const std::string& target, const std::vector<std::pair<std::string, json>>& arguments,
          const std::string& result, const std::string& module = "");

json Input(const std::string& tensor);
json Parameter(const std::string& tensor, const std::string& name);
json Buffer(const std::string& tensor, const std::string& name);
json Constant(const std::string& tensor, const std::string& name);

json Stored(const std::string& entry, const std::vector<json>& sizes, int dtype = kFloat);

json& GraphOf(json& model, const char* program = "train");
json& InputsOf(json& model, const char* program = "train");

// A model of one program, still without inputs and nodes. Its outputs are the given tensors.
json WithOutputs(const std::vector<std::string>& tensors);

// Adds an input that the caller of the model passes, as opposed to the model's state.
void AddUserInput(json& model, const std::string& tensor, const std::vector<json>& sizes);

// Adds a tensor of the model's state: a parameter, buffer or constant.
void AddState(json& model, const json& input, const std::string& tensor, const std::string& name, const json& type,
              const json& stored);

}  // namespace ampd::graph
