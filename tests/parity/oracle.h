#pragma once

#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace ampd::parity {

// Runs tests/parity/<script> with the arguments and the path of a fresh file behind them, in the test environment's
// Python (.deps/venv, made by scripts/setup), and returns the tensors it wrote there. NOT_FOUND when that Python is
// missing; a test that needs it fails then, and does not pass without having compared.
absl::StatusOr<std::map<std::string, at::Tensor>> RunOracle(const std::string& script,
                                                            const std::vector<std::string>& arguments);

}  // namespace ampd::parity
