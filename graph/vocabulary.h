#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace ampd::graph {

// How many numbers, from 0 on, an input of a model may hold: the rows of the table that it chooses from, as it is or in
// another shape, of the smallest where there are several. Nothing where it chooses from none: a part of it, as a
// column, may hold other numbers than the rest.
std::optional<int64_t> VocabularyOf(const Graph& model, std::string_view input);

}  // namespace ampd::graph
