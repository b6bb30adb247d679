#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "worker/amp/phase.h"

namespace ampd::train {

// Detects batches that may count different numbers of labels in a loss that does not report how many it counts. This
// concerns models that make their own loss and have no output for that number (model.exported.count_output). The
// batches of such a model have equal weight in a step or an evaluation, so the loss of the step or evaluation is not
// that of all samples together. Thread-compatible.
class UnevenBatches {
 public:
  explicit UnevenBatches(const graph::Graph& model);

  // Why the batches may count different numbers of labels, for example "labels of -100 are left out of the loss". Empty
  // if there is no such evidence, and for every model whose labels are counted.
  std::string WhyUneven(const std::vector<amp::Batch>& batches) const;

 private:
  std::string WhyUnevenMasks(const std::vector<amp::Batch>& batches) const;

  const bool counts_unseen_;  // The model makes a loss and does not report its number of labels.
  const bool takes_labels_;
  bool has_class_weights_ = false;  // The model's cross entropy weights labels by their class.
  std::set<int64_t> ignored_;       // Labels that the model's loss leaves out.
};

}  // namespace ampd::train
