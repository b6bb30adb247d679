#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "tests/graph/exported/exported_text.h"

// A linear layer in the JSON that torch.export writes, and functions that import such models.
namespace ampd::graph {

// Returns the model y = relu(x W^T + b), x: (B, 4), W: (3, 4).
json Linear();

// The layer of Linear() in a model that computes its own loss from labels.
json WithOwnLoss();

// The layer of Linear(), but with its relu in a nested graph. The nested graph is an argument of the call `op`. The
// nested graph uses the same names as the outer one. `front`: arguments of the call before the graph.
json Nested(const std::string& op, const std::vector<json>& front);

absl::StatusOr<Graph> Import(const json& model);

// Imports the model. Returns the text of the graph, or the error message.
std::string Text(const json& model);

// Imports Linear() after `change` was applied to it. Returns the error message.
std::string Refused(const std::function<void(json&)>& change);

}  // namespace ampd::graph
