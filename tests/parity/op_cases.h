#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/dtype.h"
#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::parity {

// One call of an op of the engine's table, in one form of its arguments (tests/parity/op_forms.py) and with its inputs
// in certain dtypes, and what PyTorch computes for it under autocast.
struct OpCase {
  // A model of this one call, as an import gives it. Its tensors are inputs, parameters and buffers named "slot<i>";
  // its results are outputs "result<i>".
  graph::Graph graph{"case"};
  executor::TensorMap slots;
  // Dtypes of the results under autocast. Empty if PyTorch returns no result; then `fails` says why.
  std::vector<graph::Dtype> gives;
  std::string fails;
  // Values under autocast on a CPU, by output and by slot.
  executor::TensorMap results;
  executor::TensorMap gradients;

  const std::string& op() const { return graph.nodes().front().op; }
  // Returns the node as tests print it, with the dtypes of its inputs.
  std::string Text() const;
};

// Returns all cases as oracle_autocast.py runs them: on a "cpu", as for a "cuda" device, or not at all ("none"). Errors
// as for RunOracle.
absl::StatusOr<std::vector<OpCase>> RunOpCases(const std::string& device, graph::Dtype low);

}  // namespace ampd::parity
