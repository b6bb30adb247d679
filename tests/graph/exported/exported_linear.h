#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "tests/graph/exported/exported_text.h"

// A layer as torch.export writes it, and its import.
namespace ampd::graph {

// y = relu(x W^T + b), x: (B, 4), W: (3, 4).
json Linear();

// The layer with a loss of its own against labels.
json WithOwnLoss();

// The layer whose relu is in a nested graph. The nested graph uses the same names as the outer one. `front`: arguments
// before the graph.
json Nested(const std::string& op, const std::vector<json>& front);

absl::StatusOr<Graph> Import(const json& model);

// Returns the text of the imported graph, or the error message.
std::string Text(const json& model);

// Returns the error message of importing the model after `change`.
std::string Refused(const std::function<void(json&)>& change);

}  // namespace ampd::graph
