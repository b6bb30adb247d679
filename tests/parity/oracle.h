#pragma once

#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace ampd::parity {

// Runs main() of tests/parity/<name>.py, with the arguments and the path of a fresh file behind them, in the test
// environment's Python (.deps/venv, made by scripts/setup), and returns the tensors it wrote there as safetensors. One
// process imports torch for all oracles of a test program, and each runs in a fork of it. NOT_FOUND when that Python is
// missing; a test that needs it fails then, and does not pass without having compared. INTERNAL when the oracle fails,
// which says on standard error why. DATA_LOSS as train::ReadTensors. Not thread-safe.
absl::StatusOr<std::map<std::string, at::Tensor>> RunOracle(const std::string& name,
                                                            const std::vector<std::string>& arguments);

}  // namespace ampd::parity
