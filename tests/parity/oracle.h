#pragma once

#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"

namespace ampd::parity {

// Runs main() of tests/parity/<name>.py in the test environment's Python (.deps/venv, made by scripts/setup). Its
// arguments are `arguments` and the path of a new file. Returns the tensors that it wrote to that file as safetensors.
// One process imports torch for all oracles of a test program, and each oracle runs in a fork of it. NOT_FOUND if that
// Python is missing: the test then fails, because it would compare nothing. INTERNAL if the oracle fails; it prints the
// reason on standard error. DATA_LOSS as for train::ReadTensors. Not thread-safe.
absl::StatusOr<std::map<std::string, at::Tensor>> RunOracle(const std::string& name,
                                                            const std::vector<std::string>& arguments);

}  // namespace ampd::parity
