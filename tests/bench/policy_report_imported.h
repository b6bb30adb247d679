#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/policy_report_networks.h"

namespace ampd::bench {

// Makes a network from an exported model, PATH.pt2, with its weights and the batches in PATH.safetensors, both written
// by tools/gpu/export_models.py. `num_batches` batches repeat those of the file. Returns the errors of reading them.
absl::StatusOr<Network> ImportNetwork(const std::string& path, int num_batches);

}  // namespace ampd::bench
