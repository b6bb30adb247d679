#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/graph/exported/exported_net.h"

// A model with a generator and a discriminator, in the JSON that torch.export writes.
namespace ampd::graph {

inline constexpr int64_t kGanFeatures = 4;

void AddGanNorm(json& model, const std::string& input, const std::string& result);

void AddGanScore(json& model, const std::string& input, const std::string& result);

// Returns a model with fake = BatchNorm1d(4)(Linear(4, 4)(noise)), discriminator_loss = mean(d(images) -
// d(fake.detach())) and generator_loss = mean(d(fake)), where d = Linear(4, 1, bias=False).
json Gan();

}  // namespace ampd::graph
