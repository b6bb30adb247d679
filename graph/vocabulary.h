#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace ampd::graph {

// The whole numbers that an input may hold: 0 to below `num_numbers`, and one that a loss ignores.
struct NumberRange {
  int64_t num_numbers = 0;
  std::optional<int64_t> ignored;
};

// Those of an input by which a model chooses, as it is or in another shape: rows of a table, places along a dimension,
// or, as the target of a cross entropy, classes. Of several choices the fewest numbers, and what all of them ignore.
// Nothing where it chooses from nothing: a part of it, as a column, may hold other numbers than the rest.
std::optional<NumberRange> NumbersOf(const Graph& model, std::string_view input);

// NumbersOf without what is ignored.
std::optional<int64_t> VocabularyOf(const Graph& model, std::string_view input);

// The label that a model's own loss leaves out of its mean: that of a cross entropy whose target is made of the input
// "labels", whole or in part. Nothing where there is none.
std::optional<int64_t> IgnoredLabelOf(const Graph& model);

}  // namespace ampd::graph
