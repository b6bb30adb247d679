#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/graph/exported/exported_text.h"

// A small network as torch.export writes one, and archives of such.
namespace ampd::graph {

// Adds a call in a module, whose containers are in the stack too, and the type of its result.
void AddCall(json& model, const std::string& target, const std::vector<std::pair<std::string, json>>& arguments,
             const std::string& result, const std::string& module, const std::string& type,
             const std::vector<json>& sizes);

void AddParameter(json& model, const std::string& tensor, const std::string& name, const std::vector<json>& sizes,
                  const std::string& entry = "");

void AddBuffer(json& model, const std::string& tensor, const std::string& name, const std::vector<json>& sizes,
               int dtype = kFloat);

void AddLinear(json& model, const std::string& name, const std::string& path, const std::string& input,
               int64_t out_features, int64_t in_features);

// A norm in training, of the parameters "p_scale" and "p_shift" and the buffers "b_mean" and "b_var".
void AddNorm(json& model, const std::string& input, const std::string& result, const std::string& module,
             const std::vector<json>& sizes);

// A stem of a convolution, a norm and a ReLU in place, three linear layers, the first with a frozen bias, a dropout and
// a head; a parameter that nothing reads, one that is tied to the head's, the norm's count of batches and one of calls.
// Outputs: the logits and the stem's features.
json Net();

// Net with a program for evaluation: training multiplies the logits by lifted_tensor_0 and divides them by
// lifted_tensor_1, evaluation divides them by a lifted_tensor_0 of its own.
json WithInlineConstants();

// An archive of the model's programs, with that content of its constants' entries. All other tensors are zeros, and
// have no content where the model isn't sound.
void WriteArchive(const std::string& path, const json& model, const std::map<std::string, std::string>& contents = {});

}  // namespace ampd::graph
