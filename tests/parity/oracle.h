#pragma once

#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace ampd::parity {

// Runs main() of tests/parity/oracles/<name>.py in the test environment's Python (.deps/venv, made by scripts/setup).
// The script gets `arguments` and the path of a new file, to which it writes tensors as safetensors. Returns these
// tensors. One process imports torch for all oracles of a test program, and each oracle runs in a fork of this process.
// Returns NOT_FOUND if that Python is missing: the test then fails, because it would compare nothing. Returns INTERNAL
// if the script fails; the script prints the reason on standard error. Returns DATA_LOSS if the file is not a valid
// safetensors file. Not thread-safe.
absl::StatusOr<std::map<std::string, at::Tensor>> RunOracle(const std::string& name,
                                                            const std::vector<std::string>& arguments);

}  // namespace ampd::parity
