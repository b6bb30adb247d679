#pragma once

#include <cstddef>

#include "graph/graph.h"
#include "precision/fp8_recipe.h"

// Replaces single nodes by ops of our own, "ampd.*" (described in precision/pass.h). The types of results stay.
namespace ampd::precision {

// Replaces a linear layer by one whose `products` are in FP8. `layer`: its index in the policy.
void ReplaceByFp8(graph::Node& node, size_t layer, const Fp8Products& products);

// Replaces a cross entropy over at least kManyClasses classes by one that reads logits of any format. Returns false if
// the node is something else. `source`: the graph of the node.
bool ReplaceByParts(graph::Node& node, const graph::Graph& source);

// Replaces a product by its upcast form, which computes in fp32 and rounds. Returns false if the op has none.
bool ReplaceByWide(graph::Node& node);

}  // namespace ampd::precision
