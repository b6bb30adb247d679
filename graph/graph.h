#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "graph/dtype.h"

// A model as a graph of ATen ops: data, without LibTorch.
namespace ampd::graph {

// One dimension of a shape: a number, or a multiple of the batch size, which is known only when the graph runs.
class Dim {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): shapes are written as lists of numbers.
  constexpr Dim(int64_t size) : factor_(size) {}
  static constexpr Dim Batch(int64_t factor = 1) { return Dim(factor, true); }

  constexpr bool is_batch() const { return batch_; }
  // The size itself, or the factor of the batch size.
  constexpr int64_t factor() const { return factor_; }
  constexpr int64_t At(int64_t batch_size) const { return batch_ ? factor_ * batch_size : factor_; }
  friend constexpr bool operator==(const Dim&, const Dim&) = default;

 private:
  constexpr Dim(int64_t factor, bool batch) : factor_(factor), batch_(batch) {}

  int64_t factor_;
  bool batch_ = false;
};

using Shape = std::vector<Dim>;

struct TensorType {
  Dtype dtype = Dtype::kFloat32;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// Identifies a value of one graph; a default-constructed id identifies none. Ids are dense, and a rewritten graph keeps
// the ids of its source.
struct ValueId {
  int index = -1;
  friend bool operator==(const ValueId&, const ValueId&) = default;
  friend bool operator<(const ValueId& a, const ValueId& b) { return a.index < b.index; }
};

// A tensor that is an input of the graph or computed by it. Names are unique in a graph.
struct Value {
  std::string name;
  TensorType type;
};

// The value of an argument: none (Python's None), a value, a list of values in which entries may be missing, or a
// constant. A Shape is a list of integers, some of which are multiples of the batch size.
using Operand = std::variant<std::monostate, ValueId, std::vector<std::optional<ValueId>>, int64_t, double, bool,
                             std::vector<int64_t>, std::vector<double>, Dtype, std::string, Shape>;

// An argument of a node, with its name in the op's schema. An argument that a node lacks has the schema's default.
struct Argument {
  std::string name;
  Operand operand;
  friend bool operator==(const Argument&, const Argument&) = default;
};

// One call of an op. `op` is an ATen overload as torch.export spells it ("aten.conv2d.default"), or one of ampd's own
// ops, whose names begin with "ampd." (precision/pass.h). The arguments of ampd's own ops are positional.
struct Node {
  std::string op;
  std::vector<Argument> arguments;
  std::vector<ValueId> outputs;
  std::string module_path;  // Path of its module, for example "features.0"; empty: none.
  // The name of the checkpoint segment to which the node belongs; empty: none. The nodes of a segment run again in the
  // backward pass (graph/segments.h).
  std::string segment = {};
  std::string source = {};   // "net.py:31", the line of user code that led to this node; empty: not known.
  std::string part_of = {};  // The model's op that this node is a part of, "aten.einsum.default"; empty: none.
  // The model itself requests fp32, by torch.autocast(enabled=False) or an explicit dtype: no policy lowers the node.
  bool keeps_fp32 = false;
  // The node names a dtype only because the model was exported in it: a policy that lowers the dtype of the node's
  // input lowers this dtype too.
  bool follows_dtype = false;
  bool without_gradient = false;  // The model runs it under torch.no_grad().
  // In the model, the node writes its result over the first value that it reads. So the result keeps that value's
  // dtype, even if a policy computes the node in another one.
  bool is_written_in_place = false;

  // Returns the operand that the node passes for the argument of this name; null if it passes none.
  const Operand* Find(std::string_view argument) const;
  // Sets an argument; appends it if it is missing.
  void Set(std::string_view argument, Operand operand);
  // The value given as `argument`; nothing if the argument is missing or is not a value.
  std::optional<ValueId> ValueOf(std::string_view argument) const;
  // All values that the node reads, in the order of its arguments, with repetitions.
  std::vector<ValueId> Uses() const;
  // The node as shown in messages: "aten.mul.Tensor of layer1.0 (net.py:31)".
  std::string Where() const;
};

// How a parameter or buffer is initialised.
struct Initializer {
  enum class Kind {
    kConstant,        // Every element is `value`.
    kUniform,         // Uniform over [-bound, bound].
    kNormal,          // Normal with mean `value` and deviation `bound`.
    kKaimingUniform,  // torch.nn.init.kaiming_uniform_(a=sqrt(5)) for `fan_in`, as in nn.Linear and nn.Conv2d.
  };
  Kind kind = Kind::kConstant;
  double value = 0;
  double bound = 0;
  int64_t fan_in = 0;

  static Initializer Constant(double value);
  static Initializer Uniform(double bound);
  static Initializer Normal(double deviation);
  static Initializer KaimingUniform(int64_t fan_in);
  // The bias of a layer whose weight has this fan-in: uniform over +-1 / sqrt(fan_in).
  static Initializer Bias(int64_t fan_in);
  // Half the width of a uniform distribution. REQUIRES: `kind` is kUniform or kKaimingUniform.
  double UniformBound() const;
};

// A trained tensor or a buffer. Its Python name ("features.0.weight") is also the name of its value.
struct State {
  std::string name;
  ValueId value;
  Initializer initializer;
};

// The number of batches that a norm has processed in training, by its Python name ("bn1.num_batches_tracked"): an int64
// scalar that checkpoints hold beside the running statistics. The counter is not a value of the graph, because no node
// reads it. The code that runs the graph increments the counter.
struct BatchCounter {
  std::string name;
  ValueId running_mean;  // The buffer that the norm writes once per batch.
};

// The batch sizes with which a graph may run, both ends included.
struct BatchRange {
  int64_t least = 1;
  int64_t most = std::numeric_limits<int64_t>::max();
  friend bool operator==(const BatchRange&, const BatchRange&) = default;
};

struct Output {
  std::string name;
  ValueId value;
};

// The model: inputs, parameters, buffers, nodes in an executable order, outputs.
//
// Every value is defined once: as an input, a parameter, a buffer or the output of a node. Building a graph checks
// nothing; Check() verifies the result. Values that are neither defined nor used are left over from rewriting and have
// no meaning. A graph is a plain value that can be copied freely. Thread-compatible.
class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  int num_values() const { return static_cast<int>(values_.size()); }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<State>& parameters() const { return parameters_; }
  const std::vector<State>& buffers() const { return buffers_; }
  const std::vector<BatchCounter>& batch_counters() const { return batch_counters_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  const BatchRange& batch_range() const { return batch_range_; }

  std::optional<ValueId> FindInput(std::string_view name) const;
  std::optional<ValueId> FindOutput(std::string_view name) const;

  // Adds a value without a definition. A name that is already used gets a suffix "_1", "_2" ...
  ValueId AddValue(std::string_view name, TensorType type);
  ValueId AddInput(std::string_view name, TensorType type);
  ValueId AddParameter(std::string_view name, TensorType type, Initializer initializer);
  ValueId AddBuffer(std::string_view name, TensorType type, Initializer initializer);
  // Adds a batch counter for a norm. Does nothing if the norm already has a counter, which happens if the model calls
  // the norm twice. REQUIRES: `running_mean` is a buffer of this graph.
  void AddBatchCounter(std::string_view name, ValueId running_mean);
  // Adds a node at the end. REQUIRES: its values belong to this graph.
  void AddNode(Node node);
  // Adds a node with one new output, and returns that output.
  ValueId AddNode(Node node, std::string_view output_name, TensorType type);
  void AddOutput(std::string_view name, ValueId value);

  void SetType(ValueId id, TensorType type);
  void SetNodes(std::vector<Node> nodes) { nodes_ = std::move(nodes); }
  void SetOutputs(std::vector<Output> outputs) { outputs_ = std::move(outputs); }
  void SetBatchRange(const BatchRange& range) { batch_range_ = range; }

  // Checks that every value is defined exactly once and before its uses, every name is unique and every node names an
  // op. INTERNAL, with a message that says what is wrong.
  absl::Status Check() const;

 private:
  std::string name_;
  std::vector<Value> values_;
  std::map<std::string, int, std::less<>> value_names_;
  std::vector<ValueId> inputs_;
  std::vector<State> parameters_;
  std::vector<State> buffers_;
  std::vector<BatchCounter> batch_counters_;
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  BatchRange batch_range_;
};

}  // namespace ampd::graph
