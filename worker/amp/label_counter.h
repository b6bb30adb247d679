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

// A model said that it counts a number of labels that there can't be.
struct LabelCountError : c10::Error {
  using c10::Error::Error;
};

// Tells of batches how much each counts beside the others: of how many labels its loss is the mean. Then the losses of
// several batches, each times its share of all labels, add up to the loss of one batch with all of them, and so do
// their gradients. Counted are
//   with a cross entropy           the labels that are not kIgnoredLabel
//   with another loss of a head    the numbers that are compared
//   with a loss of the model's own what its output graph::kLabelCount says
//   otherwise                      the samples
// All of it is done on the CPU, where the batches come from, before a step begins. Single-threaded: owner is the
// engine.
class LabelCounter {
 public:
  // `head`: nothing for a model of several losses. INVALID_ARGUMENT as graph::LabelCountProgram and Executor::Create.
  static absl::StatusOr<LabelCounter> Create(const graph::Graph& model, std::optional<graph::Head> head,
                                             const executor::OpRegistry& registry);

  // Takes what the model's own count reads besides its inputs, as it is now. BAD_STATE as Executor::Bind.
  absl::Status Bind(const executor::TensorMap& buffers);

  // Throws LabelCountError where the model's own count is negative or not finite. REQUIRES: bound.
  double CountOf(const Batch& batch) const;

  // Gives each of a step's micro-batches its share, where there are several; all have the same where none counts
  // anything. Of those that count nothing beside others that do, true; empty without such. Errors as CountOf.
  std::vector<bool> Weigh(std::vector<Batch>& micro_batches) const;

 private:
  LabelCounter(std::optional<graph::Head> head, std::unique_ptr<executor::Executor> program)
      : head_(head), program_(std::move(program)) {}

  std::optional<graph::Head> head_;
  std::unique_ptr<executor::Executor> program_;  // of the model's own count; null where it has none
};

// What is left of kIgnoredLabel. `labels`: int64, contiguous, on the CPU.
int64_t NumLabelsIn(const at::Tensor& labels);

}  // namespace ampd::amp
