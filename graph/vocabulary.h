#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace ampd::graph {

// The integers that an input may hold: those from 0 to num_numbers - 1, and `ignored`, which a loss leaves out.
struct NumberRange {
  int64_t num_numbers = 0;
  std::optional<int64_t> ignored;
};

// The range of the integers in an input that the model uses as indices, unchanged or reshaped: rows of a table,
// positions along a dimension, or classes as the target of a cross entropy. If there are several such uses, returns the
// smallest of their ranges, and the value that all of them ignore. Nothing if the whole input is never used as indices:
// a part of it, such as a column, may hold other numbers than the rest.
std::optional<NumberRange> NumbersOf(const Graph& model, std::string_view input);

// The number of integers in the range that NumbersOf returns (num_numbers), without the ignored value.
std::optional<int64_t> VocabularyOf(const Graph& model, std::string_view input);

// The label that a model's own loss leaves out of its mean: the ignored label of a cross entropy that is a mean and
// whose target is made from the input "labels", in whole or in part. Nothing if there is none. A cross entropy that is
// a sum or a list of losses does not count: if it ignores every label, its result is 0, and not NaN.
std::optional<int64_t> IgnoredLabelOf(const Graph& model);

}  // namespace ampd::graph
