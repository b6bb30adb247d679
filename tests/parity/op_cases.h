#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/dtype.h"
#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::parity {

// One call of an op in the engine's op table, and what PyTorch computes for this call under autocast. The calls of one
// op differ in the form of its arguments (tests/parity/oracles/op_forms.py) and in the dtypes of its inputs.
struct OpCase {
  // A model that consists of this one call, as an import makes it. The call's tensors are inputs, parameters and
  // buffers named "slot<i>"; its results are outputs named "result<i>".
  graph::Graph graph{"case"};
  executor::TensorMap slots;
  // Dtypes of the results under autocast. If PyTorch fails, this list is empty, and `fails` is PyTorch's error.
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

// Returns all cases, with what oracle_autocast.py computes for them. `device` says under which autocast the ops run:
//   "cpu"   that of a CPU
//   "cuda"  that of a GPU; without a GPU, it computes only the dtypes of the results
//   "none"  none; the cases then have no results
// `low`: the narrow dtype of the cases and of autocast. Returns RunOracle's errors.
absl::StatusOr<std::vector<OpCase>> RunOpCases(const std::string& device, graph::Dtype low);

}  // namespace ampd::parity
