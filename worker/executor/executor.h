#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "worker/executor/op_registry.h"

namespace ampd::executor {

using TensorMap = std::map<std::string, at::Tensor>;

// One call of a traced run. `where` names its graph node for messages (graph::Node::Where). Autograd nodes that the
// call created have sequence numbers in [first_node, end_node).
struct TracedCall {
  std::string where;
  uint64_t first_node = 0;
  uint64_t end_node = 0;
};

// Receives the values of a run as they are computed: parameters, buffers and inputs first, then the results of the
// nodes in order. Does not receive values that the backward pass computes again.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void Observe(graph::ValueId value, const at::Tensor& tensor) = 0;
};

// Runs one graph with LibTorch, node by node through the dispatcher. Autograd records the run if the caller's grad mode
// is on. Ops, constants and default arguments are looked up once, by Create; a run only makes the calls.
//
// 1. Create() from a graph. Fails if this LibTorch lacks an op or argument.
// 2. Bind() parameters and buffers. They are not copied: a parameter that requires gradients receives them, and the
//    next run uses what an optimizer has written into it. Bind again to replace them.
// 3. Run() any number of times.
//
// The executor moves a value to the last node that reads it, so that after this node only what autograd saved stays
// in memory. Run() throws LibTorch's errors: those of an op as OpError, which names the node
// (worker/executor/op_error.h), others as c10::Error. Single-threaded; owner: the trainer's step loop.
class Executor {
 public:
  // INVALID_ARGUMENT for an op that is unknown or an argument that is bad (reason UNKNOWN_OP or BAD_ARGUMENT); the
  // message names the node and the argument. `registry` holds the "ampd." ops that the graph may use, and is read only
  // during this call.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const graph::Graph& graph, const OpRegistry& registry);
  virtual ~Executor() = default;

  virtual const graph::Graph& graph() const = 0;

  // Binds every parameter and buffer of the graph from the map, by name; other entries are ignored. Returns
  // INVALID_ARGUMENT (reason BAD_STATE) if one is missing, or has another shape or dtype than in the graph.
  virtual absl::Status Bind(const TensorMap& state) = 0;

  // Runs all nodes. Inputs are in the graph's order, results in the order of its outputs. An input with the declared
  // number of elements but another shape is viewed in the declared shape. Throws c10::Error if an input has the wrong
  // number of elements or dtype. REQUIRES: Bind was called.
  std::vector<at::Tensor> Run(std::vector<at::Tensor> inputs) { return Run(std::move(inputs), /*observer=*/nullptr); }
  // Runs all nodes and passes the values to `observer`, unless it is null.
  virtual std::vector<at::Tensor> Run(std::vector<at::Tensor> inputs, RunObserver* observer) = 0;

  // Runs all nodes and appends every call to `calls`.
  virtual std::vector<at::Tensor> RunTraced(std::vector<at::Tensor> inputs, std::vector<TracedCall>& calls) = 0;
};

}  // namespace ampd::executor
