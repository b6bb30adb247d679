#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/worker.pb.h"
#include "graph/graph.h"
#include "tests/parity/op_cases.h"
#include "worker/executor/executor.h"

namespace ampd::parity {

// Returns the program of a case under a preset, made as the engine makes it. Returns the errors of ResolvePolicy and
// ApplyPrecision.
absl::StatusOr<graph::Graph> UnderPreset(const OpCase& one, const std::string& preset, const v1::Device& device);

struct OpRun {
  executor::TensorMap results;    // By name of the output.
  executor::TensorMap gradients;  // By name of the slot.
};

// Runs a case's program forward and backward on the CPU, with the engine's ops. Returns INTERNAL if LibTorch throws, or
// if a result has another dtype than the program states.
absl::StatusOr<OpRun> RunProgram(const OpCase& one, const graph::Graph& program);

}  // namespace ampd::parity
