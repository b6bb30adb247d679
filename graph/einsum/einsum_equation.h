#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::graph {

// A parsed einsum equation. Each label of the equation is replaced by a number, its place. The first places are the
// dimensions of the result; the places after them are summed over.
struct EinsumEquation {
  // For each operand: the place of each of its dimensions. If one operand has a place twice, the einsum uses the
  // diagonal of the two dimensions.
  std::vector<std::vector<size_t>> operands;
  size_t num_places = 0;
  size_t num_results = 0;  // Places below this belong to the result.
};

// `ranks`: the number of dimensions of each operand. Returns INVALID_ARGUMENT, with a clause that says what is wrong,
// if the equation is malformed or does not fit the operands.
absl::StatusOr<EinsumEquation> ParseEinsum(std::string_view equation, const std::vector<size_t>& ranks);

}  // namespace ampd::graph
