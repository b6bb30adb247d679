#pragma once

#include <cstddef>

#include "graph/graph.h"
#include "precision/fp8_recipe.h"

// Functions that replace the op of a node by another, mostly one of ampd's own, "ampd.*" (described in
// precision/pass.h). The types of the node's results stay.
namespace ampd::precision {

// Replaces a linear layer by one whose `products` are computed in FP8. `layer` is the layer's index in
// ResolvedPolicy::fp8_layers.
void ReplaceByFp8(graph::Node& node, size_t layer, const Fp8Products& products);

// Replaces a cross entropy over at least kManyClasses classes by "ampd.cross_entropy", which reads logits of any format
// and processes a part of the rows at a time. Returns false if the node is anything else. `source` is the node's graph.
bool ReplaceByParts(graph::Node& node, const graph::Graph& source);

// Replaces an adaptive average pool that has graph::EqualWindows by an average pool. Returns false if the node is
// anything else. `source` is the node's graph.
bool ReplaceByAveragePool(graph::Node& node, const graph::Graph& source);

// Replaces a product by its "_wide" form, which computes in fp32 and rounds the result. Returns false if the op has no
// such form.
bool ReplaceByWide(graph::Node& node);

}  // namespace ampd::precision
