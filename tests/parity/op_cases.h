#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/dtype.h"
#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::parity {

// One call of an op in the engine's op table, with one form of its arguments (tests/parity/oracles/op_forms.py) and
// certain input dtypes, and what PyTorch computes for this call under autocast.
struct OpCase {
  // A model that consists of this one call, as an import makes it. The call's tensors are inputs, parameters and
  // buffers named "slot<i>"; its results are outputs named "result<i>".
  graph::Graph graph{"case"};
  executor::TensorMap slots;
  // Dtypes of the results under autocast. Empty if PyTorch fails; `fails` is then its error.
  std::vector<graph::Dtype> gives;
  std::string fails;
  // Results and gradients that PyTorch computes under autocast on a CPU: the results by name of the output, the
  // gradients by name of the slot.
  executor::TensorMap results;
  executor::TensorMap gradients;

  const std::string& op() const { return graph.nodes().front().op; }
  // Returns the call as tests print it, with the dtypes of its inputs.
  std::string Text() const;
};

// Returns all cases, with what oracle_autocast.py computes for them. `device`: "cpu" runs the ops under a CPU's
// autocast, "cuda" under a GPU's (only dtypes are computed if there is no GPU), "none" runs no op under autocast.
// `low`: the narrow dtype of the cases and of autocast. Returns RunOracle's errors.
absl::StatusOr<std::vector<OpCase>> RunOpCases(const std::string& device, graph::Dtype low);

}  // namespace ampd::parity
