#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "c10/util/Exception.h"
#include "graph/graph.h"
#include "graph/heads.h"
#include "worker/amp/phase.h"
#include "worker/executor/executor.h"
#include "worker/executor/op_registry.h"

namespace ampd::amp {

// Thrown if the model's own label count is negative or not finite.
struct LabelCountError : c10::Error {
  using c10::Error::Error;
};

// Counts the labels of each batch, that is, the number of values of which its loss is the mean. The engine weights the
// loss of each batch by its share of all labels. So the losses of several batches add up to the loss of one batch with
// all samples, and the same is true of the gradients. The loss decides what is counted:
//
//   a cross entropy                    the labels other than kIgnoredLabel
//   another loss of a head             the numbers that the loss compares
//   a loss that the model computes     the value of its output graph::kLabelCount, if it has one
//   anything else                      the samples
//
// The counts are computed on the CPU, where the batches come from, before a step begins. Single-threaded; owner: the
// engine.
class LabelCounter {
 public:
  // `head` is empty for a model with several losses. Errors: those of graph::LabelCountProgram and Executor::Create
  // (INVALID_ARGUMENT).
  static absl::StatusOr<LabelCounter> Create(const graph::Graph& model, std::optional<graph::Head> head,
                                             const executor::OpRegistry& registry);

  // Copies the current values of the buffers from which the model computes its own label count, if there are any.
  // Errors: those of Executor::Bind (reason BAD_STATE).
  absl::Status Bind(const executor::TensorMap& buffers);

  // Returns the batch's label count. Throws LabelCountError if the model computes the count itself and the result is
  // negative or not finite. REQUIRES: Bind was called.
  double CountOf(const Batch& batch) const;

  // If there are several micro-batches, sets the share of each: its number of labels divided by all labels, or equal
  // shares if none has labels. Returns one flag per micro-batch, true if it has no labels while others do. Returns an
  // empty list if all flags would be false. Throws like CountOf.
  std::vector<bool> Weigh(std::vector<Batch>& micro_batches) const;

 private:
  LabelCounter(std::optional<graph::Head> head, std::unique_ptr<executor::Executor> program)
      : head_(head), program_(std::move(program)) {}

  std::optional<graph::Head> head_;
  std::unique_ptr<executor::Executor> program_;  // The model's own count; null if it has none.
};

// The number of labels other than kIgnoredLabel. `labels`: int64, contiguous, on the CPU.
int64_t NumLabelsIn(const at::Tensor& labels);

}  // namespace ampd::amp
