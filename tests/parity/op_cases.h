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
// in certain dtypes, and what PyTorch makes of it under autocast.
struct OpCase {
  // A model of this one call, as an import gives it: its tensors are inputs, parameters and buffers named "slot<i>",
  // its results outputs "result<i>".
  graph::Graph graph{"case"};
  executor::TensorMap slots;
  // Dtypes of the results under autocast; empty where PyTorch gives none: then `fails` says why.
  std::vector<graph::Dtype> gives;
  std::string fails;
  // Under autocast on a CPU, by output and by slot.
  executor::TensorMap results;
  executor::TensorMap gradients;

  const std::string& op() const { return graph.nodes().front().op; }
  // The node as tests print it, with the dtypes of its inputs.
  std::string Text() const;
};

// All cases as oracle_autocast.py runs them: on a "cpu", as for a "cuda" device, or with "none" not at all. Errors as
// RunOracle.
absl::StatusOr<std::vector<OpCase>> RunOpCases(const std::string& device, graph::Dtype low);

}  // namespace ampd::parity
