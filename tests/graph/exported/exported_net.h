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

// Adds a node that calls the op `target`. `module` and `type` are the path and the class of the module that makes the
// call. `sizes` is the shape of the node's result.
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

// Returns the model of a network: a stem (a convolution, a norm and an in-place ReLU), three linear layers of which the
// first has a frozen bias, a dropout, and a head. The network's outputs are the logits and the stem's features. It also
// has a parameter that nothing reads, a parameter that shares the head's weight, and two counters: one of the batches
// that the norm has seen, one of the calls of the network.
json Net();

// Net() with an evaluation program. Training multiplies the logits by lifted_tensor_0 and divides them by
// lifted_tensor_1. Evaluation divides them by a different constant, which is named lifted_tensor_0 too.
json WithInlineConstants();

// Writes an archive of the model's programs. `contents` has the bytes of constants, by the names of their files in the
// archive. All other tensors are zeros, or empty files if the model is invalid.
void WriteArchive(const std::string& path, const json& model, const std::map<std::string, std::string>& contents = {});

}  // namespace ampd::graph
