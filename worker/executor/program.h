#pragma once

#include <optional>
#include <vector>

#include "ATen/core/dispatch/Dispatcher.h"
#include "ATen/core/ivalue.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/executor/op_registry.h"

// A graph made ready to run: what can be known before the first run is looked up here, once.
namespace ampd::executor {

// Where a value goes on the stack. `last`: nothing reads the value afterwards, so it is moved there.
struct ValueUse {
  size_t argument = 0;
  size_t value = 0;
  bool last = false;
};

// A list of tensors on the stack; an entry without a value is None.
struct ListUse {
  size_t argument = 0;
  std::vector<std::optional<size_t>> values;
  bool of_optionals = false;  // Tensor?[] and not Tensor[]
};

// One call. `stack` holds constants and default arguments, with holes where `values` and `lists` go.
struct Instruction {
  std::optional<c10::OperatorHandle> handle;  // an ATen op; otherwise `custom` is set
  BoxedOp custom;
  std::vector<c10::IValue> stack;
  std::vector<ValueUse> values;
  std::vector<ListUse> lists;
  std::vector<size_t> results;
  bool returns_list = false;  // one Tensor[], whose elements are the results
  std::vector<size_t> drop;   // values that nothing reads after this call
};

// The instructions of a graph in its order. State and outputs are never dropped. INVALID_ARGUMENT with reason
// UNKNOWN_OP or BAD_ARGUMENT.
absl::StatusOr<std::vector<Instruction>> Compile(const graph::Graph& graph, const OpRegistry& registry);

}  // namespace ampd::executor
