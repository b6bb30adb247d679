#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/graph/exported/exported_text.h"

// A small network in the JSON that torch.export writes, and archives with such models.
namespace ampd::graph {

// Adds a node that calls an op in a module, with the modules that contain it, and the type of the node's result.
void AddCall(json& model, const std::string& target, const std::vector<std::pair<std::string, json>>& arguments,
             const std::string& result, const std::string& module, const std::string& type,
             const std::vector<json>& sizes);

void AddParameter(json& model, const std::string& tensor, const std::string& name, const std::vector<json>& sizes,
                  const std::string& entry = "");

void AddBuffer(json& model, const std::string& tensor, const std::string& name, const std::vector<json>& sizes,
               int dtype = kFloat);

void AddLinear(json& model, const std::string& name, const std::string& path, const std::string& input,
               int64_t out_features, int64_t in_features);

// Adds a norm in training mode with the parameters "p_scale" and "p_shift" and the buffers "b_mean" and "b_var".
void AddNorm(json& model, const std::string& input, const std::string& result, const std::string& module,
             const std::vector<json>& sizes);

// Returns the model of a network. It has a stem of a convolution, a norm and a ReLU in place; three linear layers, the
// first with a frozen bias; a dropout and a head. It also has a parameter that nothing reads, a parameter tied to the
// head's, and two counters: the norm's batches and calls. Outputs: the logits and the stem's features.
json Net();

// Net() with an evaluation program. Training multiplies the logits by lifted_tensor_0 and divides them by
// lifted_tensor_1. Evaluation divides them by a different constant, which is named lifted_tensor_0 too.
json WithInlineConstants();

// Writes an archive of the model's programs. `contents` holds the content of constants by their entries. All other
// tensors are zeros, or have no content if the model is invalid.
void WriteArchive(const std::string& path, const json& model, const std::map<std::string, std::string>& contents = {});

}  // namespace ampd::graph
