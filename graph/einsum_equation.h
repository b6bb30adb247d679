#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ampd::graph {

// What the equation of an einsum says, over places: those of the result's dimensions first, then those that are summed
// over.
struct EinsumEquation {
  // By operand, the place of each of its dimensions; one that comes twice is a diagonal.
  std::vector<std::vector<size_t>> operands;
  size_t num_places = 0;
  size_t num_results = 0;  // places below it are the result's
};

// `ranks`: how many dimensions each operand has. INVALID_ARGUMENT with what is wrong, as a clause.
absl::StatusOr<EinsumEquation> ParseEinsum(std::string_view equation, const std::vector<size_t>& ranks);

}  // namespace ampd::graph
