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

// One call of a run that is traced: a node of the graph for messages (graph::Node::Where), and the numbers that
// autograd gave to the nodes of its own which the call made, from `first_node` to before `end_node`.
struct TracedCall {
  std::string where;
  uint64_t first_node = 0;
  uint64_t end_node = 0;
};

// Sees the values of a run while they are there: parameters, buffers and inputs first, then the results of the nodes in
// their order. What runs again in the backward pass it does not see again.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void Observe(graph::ValueId value, const at::Tensor& tensor) = 0;
};

// Runs one graph with LibTorch: node by node through the dispatcher, recorded by autograd when the caller's grad mode
// says so. Handles, constants and default arguments are resolved once, at creation; a run does only the calls.
//
// 1. Create() from a graph; an op or argument that this LibTorch does not have is an error here.
// 2. Bind() parameters and buffers. They are used as they are, so a parameter that requires gradients receives them,
//    and what an optimizer writes into it is seen by the next run. Bind again to swap them.
// 3. Run() as often as wanted.
//
// A value is dropped as soon as its last reader has it, so only what autograd saved lives on. Errors of LibTorch leave
// Run() as exceptions: those of an op as OpError, which names the node (worker/executor/op_error.h), others as
// c10::Error. Single-threaded: owner is the trainer's step loop.
class Executor {
 public:
  // INVALID_ARGUMENT (reason UNKNOWN_OP or BAD_ARGUMENT), naming node and argument. `registry` holds the ops of ours
  // that the graph uses, and is read only here.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const graph::Graph& graph, const OpRegistry& registry);
  virtual ~Executor() = default;

  virtual const graph::Graph& graph() const = 0;

  // Takes every parameter and buffer of the graph from the map, by name; others in the map are ignored.
  // INVALID_ARGUMENT (reason BAD_STATE) when one is missing, or has another shape or dtype than the graph says.
  virtual absl::Status Bind(const TensorMap& state) = 0;

  // Runs all nodes. `inputs` are in the graph's order and results in the order of its outputs. An input whose samples
  // have another shape of as many elements as declared is viewed in the declared shape. Throws c10::Error when an input
  // has the wrong number of elements or dtype. REQUIRES: bound.
  std::vector<at::Tensor> Run(std::vector<at::Tensor> inputs) { return Run(std::move(inputs), /*observer=*/nullptr); }
  // The same, seen by an observer unless it is null.
  virtual std::vector<at::Tensor> Run(std::vector<at::Tensor> inputs, RunObserver* observer) = 0;

  // The same as the first, with a note of every call in `calls`.
  virtual std::vector<at::Tensor> RunTraced(std::vector<at::Tensor> inputs, std::vector<TracedCall>& calls) = 0;
};

}  // namespace ampd::executor
