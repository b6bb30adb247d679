#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "worker/amp/phase.h"

namespace ampd::train {

// Detects batches in which a model's own loss may count different numbers of labels, if the model does not output these
// numbers (model.exported.count_output). A step or an evaluation weights the batches of such a model equally, so the
// mean loss then differs from the mean over all samples. Thread-compatible.
class UnevenBatches {
 public:
  explicit UnevenBatches(const graph::Graph& model);

  // Why the batches may count different numbers of labels, for example "labels of -100 are left out of the loss". Empty
  // if nothing suggests that they do, and for every model whose label counts are known.
  std::string WhyUneven(const std::vector<amp::Batch>& batches) const;

 private:
  std::string WhyUnevenMasks(const std::vector<amp::Batch>& batches) const;

  const bool counts_unseen_;  // The model makes a loss and does not report its number of labels.
  const bool takes_labels_;
  bool has_class_weights_ = false;  // The model's cross entropy weights labels by their class.
  std::set<int64_t> ignored_;       // Labels that the model's loss leaves out.
};

}  // namespace ampd::train
