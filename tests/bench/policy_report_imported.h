#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/policy_report_networks.h"

namespace ampd::bench {

// Makes a network from an exported model, PATH.pt2, and from its weights and batches in PATH.safetensors.
// tools/gpu/export_models.py writes both files. The network has `num_batches` batches, which repeat those of the file.
// Returns an error if a file can't be read.
absl::StatusOr<Network> ImportNetwork(const std::string& path, int num_batches);

}  // namespace ampd::bench
