#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ATen/core/dispatch/Dispatcher.h"
#include "ATen/core/ivalue.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/executor/op_registry.h"

// A graph prepared for running: everything known before the first run is looked up here, once.
namespace ampd::executor {

// The position of a value on the stack. `last`: nothing reads the value afterwards, so it is moved there.
struct ValueUse {
  size_t argument = 0;
  size_t value = 0;
  bool last = false;
};

// The position on the stack of a list of tensors, and the values of its entries; an entry without a value is None.
struct ListUse {
  size_t argument = 0;
  std::vector<std::optional<size_t>> values;
  bool of_optionals = false;  // Tensor?[] rather than Tensor[].
};

// The position on the stack of a list of sizes, some of which are multiples of the run's batch size.
struct SizesUse {
  size_t argument = 0;
  graph::Shape sizes;
};

struct CompiledSegment;

// One call, or a segment. `stack` holds constants and default arguments, with holes for `values`, `lists` and `sizes`.
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
  bool no_gradient = false;   // Autograd does not record it.
  std::string where;          // The node as named in messages.
};

// A checkpoint segment (graph/segments.h): run once in the forward pass, and again, recorded, in the backward pass. The
// segment's autograd node keeps it alive.
struct CompiledSegment : torch::CustomClassHolder {
  std::vector<Instruction> first;   // Over the values of the whole run.
  std::vector<Instruction> second;  // Over fresh values, from `inputs` to `outputs`.
  std::vector<size_t> inputs;
  std::vector<size_t> outputs;
  size_t num_values = 0;
  bool random = false;  // An op draws random numbers.
};

// The instructions of a graph, in order. Parameters, buffers and outputs are never dropped. Returns INVALID_ARGUMENT
// with reason UNKNOWN_OP or BAD_ARGUMENT.
absl::StatusOr<std::vector<Instruction>> Compile(const graph::Graph& graph, const OpRegistry& registry);

}  // namespace ampd::executor
