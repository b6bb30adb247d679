#pragma once

#include <optional>
#include <string>
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

// Where a list of sizes goes on the stack, of which some are multiples of the run's batch size.
struct SizesUse {
  size_t argument = 0;
  graph::Shape sizes;
};

struct CompiledSegment;

// One call, or a segment. `stack` holds constants and default arguments, with holes where `values`, `lists` and `sizes`
// go.
struct Instruction {
  std::optional<c10::OperatorHandle> handle;  // an ATen op; otherwise `custom` or `segment` is set
  BoxedOp custom;
  c10::intrusive_ptr<CompiledSegment> segment;
  std::vector<c10::IValue> stack;
  std::vector<ValueUse> values;
  std::vector<ListUse> lists;
  std::vector<SizesUse> sizes;
  std::optional<size_t> device;  // the argument that takes the run's device: of an op that makes a tensor from nothing
  std::vector<size_t> results;
  bool returns_list = false;  // one Tensor[], whose elements are the results
  std::vector<size_t> drop;   // values that nothing reads after this call
  bool no_gradient = false;   // autograd does not record it
  std::string where;          // the node for messages
};

// A checkpoint segment (graph/segments.h): run once in the forward pass, and again, recorded, in the backward pass.
// Autograd's node of the segment keeps it alive.
struct CompiledSegment : torch::CustomClassHolder {
  std::vector<Instruction> first;   // over the values of the whole run
  std::vector<Instruction> second;  // over fresh values, from `inputs` to `outputs`
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
  size_t num_values = 0;
  bool random = false;  // an op draws random numbers
};

// The instructions of a graph in its order. State and outputs are never dropped. INVALID_ARGUMENT with reason
// UNKNOWN_OP or BAD_ARGUMENT.
absl::StatusOr<std::vector<Instruction>> Compile(const graph::Graph& graph, const OpRegistry& registry);

}  // namespace ampd::executor
