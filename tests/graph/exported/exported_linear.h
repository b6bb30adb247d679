#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "tests/graph/exported/exported_text.h"

// A layer as torch.export writes it, and what becomes of it.
namespace ampd::graph {

// relu(x W^T + b), x: (B, 4), W: (3, 4).
json Linear();

// The layer with its own loss against labels.
json WithOwnLoss();

// The relu in a graph of its own, whose names are those of the outer one too. `front`: arguments in front of the graph.
json Nested(const std::string& op, const std::vector<json>& front);

absl::StatusOr<Graph> Import(const json& model);

// The graph, or why there is none.
std::string Text(const json& model);

// The message for the model with a change.
std::string Refused(const std::function<void(json&)>& change);

}  // namespace ampd::graph
