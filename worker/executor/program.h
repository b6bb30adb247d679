#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ATen/core/dispatch/Dispatcher.h"
#include "ATen/core/ivalue.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/executor/op_registry.h"

// A graph compiled for the executor: everything that does not depend on a run is looked up once.
namespace ampd::executor {

// A value that an instruction reads: argument number `argument` is the value number `value` of the graph. If `last`
// is true, no later instruction reads the value, so it is moved, and not copied, to the arguments.
struct ValueUse {
  size_t argument = 0;
  size_t value = 0;
  bool last = false;
};

// A list of tensors that an instruction reads: argument number `argument` is the list of these values. An unset entry
// stands for None.
struct ListUse {
  size_t argument = 0;
  std::vector<std::optional<size_t>> values;
  bool of_optionals = false;  // Tensor?[] rather than Tensor[].
};

// A list of sizes that an instruction reads: argument number `argument` is the list `sizes`. A size may be a multiple
// of the run's batch size.
struct SizesUse {
  size_t argument = 0;
  graph::Shape sizes;
};

struct CompiledSegment;

// One op call, or a checkpoint segment. `stack` is the call's argument list: it holds the constants and default
// arguments; a run fills in `values`, `lists` and `sizes`.
struct Instruction {
  std::optional<c10::OperatorHandle> handle;  // An ATen op; otherwise `custom` or `segment` is set.
  BoxedOp custom;
  c10::intrusive_ptr<CompiledSegment> segment;
  std::vector<c10::IValue> stack;
  std::vector<ValueUse> values;
  std::vector<ListUse> lists;
  std::vector<SizesUse> sizes;
  std::optional<size_t> device;  // Position of the device argument, if the op makes a tensor from nothing.
  std::vector<size_t> results;
  bool returns_list = false;  // The op returns one Tensor[], whose elements are the results.
  std::vector<size_t> drop;   // Values that nothing reads after this call.
  bool no_gradient = false;   // Autograd does not record the call.
  std::string where;          // Names the node in messages.
};

// A checkpoint segment (graph/segments.h): runs once in the forward pass, where autograd does not record its ops, and
// again in the backward pass, where autograd records them. The autograd node of the segment keeps this object alive.
struct CompiledSegment : torch::CustomClassHolder {
  std::vector<Instruction> first;   // In the forward pass, on the values of the whole run.
  std::vector<Instruction> second;  // In the backward pass, on values of its own.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
  size_t num_values = 0;
  bool random = false;  // An op draws random numbers.
};

// Compiles a graph to instructions, in the order of its nodes. Parameters, buffers and outputs are never dropped after
// their last use. Returns INVALID_ARGUMENT with reason UNKNOWN_OP or BAD_ARGUMENT.
absl::StatusOr<std::vector<Instruction>> Compile(const graph::Graph& graph, const OpRegistry& registry);

}  // namespace ampd::executor
